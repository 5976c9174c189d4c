"""Cache policies, written once: the live cache calls these functions, the lab compiles the same.

A policy is one small function over scalars in a file of its own. It knows no cache, clock or
random source. Families: admission (is a new object cached at all?), eviction (which cache loses
its tail when room is needed?), expiry (how long may an object stay?). Caches of messages have
families of their own, in `message`; caches of pages theirs, in `page`.
"""

from tocsin.policies import admission, eviction, expiry
from tocsin.policies.candidate import Candidate
from tocsin.policies.choice import (
    FAMILIES,
    AdmissionPolicy,
    CachePolicy,
    parse_admission,
    parse_policy,
    policy_names,
)

__all__ = [
    "FAMILIES",
    "AdmissionPolicy",
    "CachePolicy",
    "Candidate",
    "admission",
    "eviction",
    "expiry",
    "parse_admission",
    "parse_policy",
    "policy_names",
]
