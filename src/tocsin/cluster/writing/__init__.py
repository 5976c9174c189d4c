"""A process of its own that stores what channels in real-time mode find."""
