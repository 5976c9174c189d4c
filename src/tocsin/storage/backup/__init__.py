"""Backups of a system, and systems from backups; what a backup holds is in `protocol.backup`."""
