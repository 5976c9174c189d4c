"""The demo: the emergency city of the Big Active Data paper (section VI), played in a minute."""
