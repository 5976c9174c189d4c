"""Result caches: what is cached, dropped and lets expire (BAD IV). A policy is one of each family:
`admission` (shared with consumer logs), `eviction` and `expiry`."""

from tocsin.policies.result.candidate import Candidate
from tocsin.policies.result.choice import FAMILIES, CachePolicy, parse_policy, policy_names

__all__ = ["FAMILIES", "CachePolicy", "Candidate", "parse_policy", "policy_names"]
