"""Each policy over the same seeded small day: exact counts, frozen.

No truth of their own: whoever changes what a policy decides must see here that it changed. What
each should decide is worked by hand in the other tests.
"""

from __future__ import annotations

import pytest

from lab.small_day import BUDGET_BYTES, EVERY_POLICY, NETWORK, small_day
from tocsin.lab.simulator import simulate
from tocsin.policies import parse_policy

FROZEN = {
    # hits, misses, inserted, bypassed, evicted, expired, consumed, dropped
    "exp": (6336, 2281, 3022, 361, 1469, 0, 1539, 0),
    "fifo": (6875, 1742, 3383, 0, 1723, 0, 1646, 0),
    "gdsf": (6626, 1991, 3085, 298, 1508, 0, 1561, 0),
    "homing": (7060, 1557, 3344, 39, 1718, 0, 1610, 0),
    "lru": (6831, 1786, 3364, 19, 1682, 0, 1668, 0),
    "lsc": (7025, 1592, 3305, 78, 1820, 0, 1471, 0),
    "lscz": (6428, 2189, 2953, 430, 1427, 0, 1510, 0),
    "lsd": (6350, 2267, 2906, 477, 1429, 0, 1461, 0),
    "none": (0, 8617, 0, 0, 0, 0, 0, 0),
    "ttl": (7281, 1336, 3383, 0, 0, 1411, 1946, 0),
    "admit=buffer evict=lsc": (5459, 3158, 2142, 1241, 665, 0, 906, 558),
    "admit=mean evict=lsc": (4956, 3661, 1568, 1815, 754, 0, 598, 203),
    "admit=threshold evict=lsc": (5778, 2839, 2236, 1147, 844, 0, 899, 479),
    "evict=homing expire=ttl": (6888, 1729, 3361, 22, 1051, 736, 1560, 0),
}


def test_every_policy_is_here() -> None:
    assert set(FROZEN) == set(EVERY_POLICY)


@pytest.mark.parametrize("text", FROZEN)
def test_counts(text: str) -> None:
    outcome = simulate(small_day(), parse_policy(text), BUDGET_BYTES, NETWORK)
    row = outcome.row()
    names = ["hits", "misses", "inserted", "bypassed", "evicted", "expired", "consumed", "dropped"]
    assert tuple(row[name] for name in names) == FROZEN[text]
