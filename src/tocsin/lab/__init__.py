"""The lab: which cache policy, how large a cache? Workloads, compiled simulators, bounds,
experiments and reports.

The policies are the live broker's own functions, compiled. Imports point one way (to the right):

    running, prototype, planning → reports → sweeps, experiments → studies → live
        → spec, bounds → simulators, models → trace → workloads, jit
"""
