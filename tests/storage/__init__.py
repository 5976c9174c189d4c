"""The contract of the store, run over every database that Tocsin supports."""
