"""Claims about how large a metric is: in a range, steady, lowest somewhere, moved by chance."""

from __future__ import annotations

from lab.made_up import SIZES, Value, table
from tocsin.lab.spec.axis import CACHE_SIZES
from tocsin.lab.spec.checks import gap_grows, only_at, times
from tocsin.lab.spec.claims import Check, Finding, View
from tocsin.lab.spec.levels import between, lowest_at, moves_with, spread_falls, steady

SMALL, LARGE = SIZES
THREE = (*SIZES, 200_000_000)


def judged(
    check: Check, value: Value, *, seeds: int = 3, sizes: tuple[int, ...] = SIZES
) -> Finding:
    values = {"share": value, "other": lambda policy, size, seed: float(seed)}
    points = table(values, policies=("lru", "lsc"), seeds=seeds, sizes=sizes)
    return check(View(points, "always", CACHE_SIZES))


def test_between_asks_for_the_whole_interval_or_for_every_seed() -> None:
    def near(policy: str, size: int, seed: int) -> float:
        return 0.5 + 0.01 * (seed - 2)

    assert judged(between("share", ("lru",), 0.4, 0.6), near).verdict == "reproduced"
    assert judged(between("share", ("lru",), 0.49, 0.51), near).verdict == "not reproduced"
    every = between("share", ("lru",), 0.49, 0.51, every_seed=True)
    assert judged(every, near).verdict == "reproduced"
    every = between("share", ("lru",), 0.49, 0.505, every_seed=True)
    assert judged(every, near).verdict == "not reproduced"


def test_between_holds_at_some_sizes() -> None:
    finding = judged(between("share", ("lru",), 0, 1), lambda _, size, __: size / LARGE * 1.5)
    assert finding.verdict == "partly"
    assert finding.groups == {"50 MB": True, "100 MB": False}
    assert finding.groups_are == "sizes"


def test_steady_is_judged_for_each_policy() -> None:
    def value(policy: str, size: int, seed: int) -> float:
        return 0.5 if policy == "lru" or size == SMALL else 0.6

    finding = judged(steady("share", ("lru", "lsc"), 0.04), value)
    assert finding.groups == {"lru": True, "lsc": False}
    assert finding.groups_are == "policies"
    assert judged(steady("share", ("lsc",), 0.06), value).verdict == "reproduced"
    assert judged(steady("share", ("lsc",), 0.1), value, sizes=(SMALL,)).verdict == "not tested"


def test_lowest_at_looks_at_both_sides() -> None:
    def valley(policy: str, size: int, seed: int) -> float:
        return (0.5 if size == LARGE else 0.7) + seed / 1000

    def slope(policy: str, size: int, seed: int) -> float:
        return size / 1e9

    check = lowest_at("share", "lru", LARGE)
    assert judged(check, valley, sizes=THREE).verdict == "reproduced"
    assert judged(check, slope, sizes=THREE).verdict == "partly"
    assert judged(lowest_at("share", "lru", 7), slope).verdict == "not tested"


def test_spread_falls_where_seeds_agree_more() -> None:
    def value(policy: str, size: int, seed: int) -> float:
        falls = policy == "lru"
        return seed / size if falls else seed * size

    finding = judged(spread_falls("share", ("lru", "lsc")), value)
    assert finding.groups == {"lru": True, "lsc": False}
    assert judged(spread_falls("share", ("lru",)), value, seeds=2).verdict == "not tested"


def test_moves_with_is_a_correlation_over_seeds() -> None:
    with_it = judged(moves_with("share", "other", ("lru",), 0.9), lambda _, __, seed: 3.0 * seed)
    against = judged(moves_with("share", "other", ("lru",), 0.9), lambda _, __, seed: -3.0 * seed)
    assert with_it.verdict == "reproduced"
    assert against.verdict == "not reproduced"
    assert against.cases[0].value.mean == -1


def test_times_is_a_quotient_of_pairs() -> None:
    def value(policy: str, size: int, seed: int) -> float:
        return seed * (10.0 if policy == "lsc" else 1.0)

    assert judged(times("share", "lsc", ("lru",), low=9, high=11), value).verdict == "reproduced"
    assert judged(times("share", "lsc", ("lru",), low=11), value).verdict == "not reproduced"


def test_gap_grows_step_by_step() -> None:
    def value(policy: str, size: int, seed: int) -> float:
        return seed + (size / 1e9 if policy == "lsc" else 0.0)

    assert judged(gap_grows("share", "lsc", "lru"), value, sizes=THREE).verdict == "reproduced"
    assert judged(gap_grows("share", "lru", "lsc"), value, sizes=THREE).verdict == "not reproduced"
    assert judged(gap_grows("share", "lsc", "lru"), value, sizes=(SMALL,)).verdict == "not tested"


def test_only_at_leaves_other_values_out() -> None:
    check = between("share", ("lru",), 0, 1)

    def value(policy: str, size: int, seed: int) -> float:
        return size / LARGE * 1.5

    assert judged(only_at([SMALL], check), value).verdict == "reproduced"
    assert judged(only_at([LARGE], check), value).verdict == "not reproduced"
    missing = judged(only_at([7], check), value)
    assert missing.verdict == "not tested"
    assert "no points at" in missing.missing
