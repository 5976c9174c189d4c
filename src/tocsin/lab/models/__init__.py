"""How long a message survives in brokers' caches, computed, not simulated (survival 4, 5 and 6).

    exact      one broker: the slot of a message, and how many of its neighbours are alive
    reduced    one broker: the slot alone
    multi      several brokers, as the paper has it, its brokers lumped to multisets of slots
    balanced   the same chain, with the copies that the caches themselves make (ours)
    wide       many brokers, large caches: brokers apart from each other, on one clock (ours)

A message is *alive* at a broker that has a client for it. Knows no simulator.
"""
