"""Cache policies, written once: the live cache calls these functions, the lab compiles the same.

A policy is one file: a small function over scalars, the parameters that its name may carry, and, if
it must remember something, the record of its state with the functions that fill it. It knows no
cache, clock or random source. `grammar` says how policies are written, `registry` what a file may
declare. `result` caches choose what is admitted (`admission`), evicted and expires; caches of
messages have families of their own, in `message`, and caches of pages theirs, in `page`.
"""

from tocsin.policies.admission import AdmissionPolicy, parse_admission
from tocsin.policies.result import FAMILIES, CachePolicy, Candidate, parse_policy, policy_names

__all__ = [
    "FAMILIES",
    "AdmissionPolicy",
    "CachePolicy",
    "Candidate",
    "parse_admission",
    "parse_policy",
    "policy_names",
]
