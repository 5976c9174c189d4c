"""The broker: `core` decides (events in, effects out), the server around it moves the bytes."""
