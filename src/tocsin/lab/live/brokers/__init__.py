"""Clients that come and go at a tree of live brokers, as processes: what their requests for old
messages find, beside what the simulator says of the same clients.
"""
