"""Simulators: one package for each kind of cache or log, named after it.

A simulator is a `kernel` (plain Python over arrays that calls the policies' functions, compiled)
and a `simulator` around it: a workload or trace, a policy and a size in, an outcome in numbers
out. `live` plays the same through the objects of the running system; tests hold the two equal.
"""
