"""Chaos on real processes: a whole system under load, whose parts are killed, paused and cut off
in an order drawn from a seed, and whose whole history is judged at the end (`tocsin chaos`).

`plan` draws what is done and when, `faults` does it, `people` publish and listen, `history` says
what must be true of what they were told. `play` puts them together.
"""
