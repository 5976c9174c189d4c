"""The broker overlay: filters, the tree of brokers, and the routing of what they tell each other.

Sans-I/O: no clock, socket or random source; what happens comes in as calls, what is to be done
goes out as effects.
"""
