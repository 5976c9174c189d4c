"""The demo: the emergency city of Big Active Data (BAD VI), played in a minute."""
