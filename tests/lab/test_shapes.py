"""Claims about the shape of a curve: straight, exponential, rising slowly, near its end."""

from __future__ import annotations

import math

from lab.made_up import Value, table
from tocsin.lab.spec.axis import CACHE_SIZES
from tocsin.lab.spec.claims import Check, Finding, View
from tocsin.lab.spec.shapes import part_of_last, rises_at_most, straight

MB = 1_000_000
PLACES = (10 * MB, 20 * MB, 30 * MB, 40 * MB)


def judged(check: Check, value: Value, places: tuple[int, ...] = PLACES) -> Finding:
    points = table({"share": value}, policies=("lru", "lsc"), sizes=places)
    return check(View(points, "always", CACHE_SIZES))


def line(policy: str, size: int, seed: int) -> float:
    return 2.0 + 3.0 * size / MB


def exponential(policy: str, size: int, seed: int) -> float:
    return math.exp(0.2 * size / MB) if policy == "lru" else 5.0 + seed * math.sin(size)


def test_a_line_is_straight_and_an_exponential_by_its_logarithm() -> None:
    assert judged(straight("share", ("lru",), 0.999), line).verdict == "reproduced"
    assert judged(straight("share", ("lru",), 0.999), exponential).verdict == "not reproduced"
    curved = straight("share", ("lru", "lsc"), 0.999, logarithm=True)
    assert judged(curved, exponential).groups == {"lru": True, "lsc": False}
    assert judged(curved, exponential, PLACES[:2]).verdict == "not tested"


def test_how_much_a_step_may_rise() -> None:
    assert judged(rises_at_most("share", ("lru",), 31.0), line).verdict == "reproduced"
    assert judged(rises_at_most("share", ("lru",), 30.0), line).verdict == "not reproduced"
    assert judged(rises_at_most("share", ("lru",), 31.0), line, PLACES[:1]).verdict == "not tested"


def test_a_part_of_what_it_is_in_the_end() -> None:
    half = part_of_last("share", ("lru",), 20 * MB, low=0.5)
    assert judged(half, line).verdict == "reproduced"
    less = part_of_last("share", ("lru",), 20 * MB, high=0.5)
    assert judged(less, line).verdict == "not reproduced"
    assert judged(half, line, (10 * MB, 40 * MB)).verdict == "not tested"
