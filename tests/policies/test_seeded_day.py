"""Each policy over the same seeded small day: exact counts, frozen.

No truth of their own: whoever changes what a policy decides must see here that it changed. What
each should decide is worked by hand in the other tests.
"""

from __future__ import annotations

import pytest

from lab.small_day import BUDGET_BYTES, EVERY_POLICY, NETWORK, small_day
from tocsin.lab.simulators.result_cache.simulator import simulate
from tocsin.policies import parse_policy

FROZEN = {
    # hits, misses, inserted, bypassed, evicted, expired, consumed, dropped
    "exp": (6605, 2206, 3130, 253, 1551, 0, 1564, 0),
    "fifo": (6960, 1851, 3383, 0, 1694, 0, 1676, 0),
    "gdsf": (6775, 2036, 3126, 257, 1481, 0, 1629, 0),
    "return-rate": (7135, 1676, 3342, 41, 1662, 0, 1664, 0),
    "lru": (6911, 1900, 3373, 10, 1684, 0, 1672, 0),
    "lsc": (7089, 1722, 3316, 67, 1778, 0, 1524, 0),
    "lscz": (6486, 2325, 2912, 471, 1353, 0, 1544, 0),
    "lsd": (6494, 2317, 2935, 448, 1407, 0, 1514, 0),
    "none": (0, 8811, 0, 0, 0, 0, 0, 0),
    "ttl": (7460, 1351, 3383, 0, 0, 1341, 2021, 0),
    "admit=buffer evict=lsc": (5506, 3305, 2146, 1237, 679, 0, 958, 495),
    "admit=mean evict=lsc": (5029, 3782, 1568, 1815, 679, 0, 698, 179),
    "admit=threshold evict=lsc": (5837, 2974, 2230, 1153, 789, 0, 1002, 426),
    "evict=return-rate expire=ttl": (7006, 1805, 3358, 25, 1010, 741, 1591, 0),
}


def test_every_policy_is_here() -> None:
    assert set(FROZEN) == set(EVERY_POLICY)


@pytest.mark.parametrize("text", FROZEN)
def test_counts(text: str) -> None:
    outcome = simulate(small_day(), parse_policy(text), BUDGET_BYTES, NETWORK)
    row = outcome.row()
    names = ["hits", "misses", "inserted", "bypassed", "evicted", "expired", "consumed", "dropped"]
    assert tuple(row[name] for name in names) == FROZEN[text]
