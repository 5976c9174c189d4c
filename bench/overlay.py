"""The broker overlay: filters matched and covered, publications routed, the tree simulated.

Baselines look at every filter: the same tests, one filter after the other. The simulator's is the
live routing core and its caches in plain Python, on stories on which both must count the same.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

from bench.findings import Finding
from tocsin.caching import MessageCache
from tocsin.lab.simulators.overlay.live import play_live
from tocsin.lab.simulators.overlay.simulator import simulate
from tocsin.lab.simulators.overlay.story import Happening, play_compiled
from tocsin.lab.workloads.tree import TreeLoad
from tocsin.model import Column, Dataset
from tocsin.overlay.filters import Filter, covers
from tocsin.overlay.filters.filter import Test, tests
from tocsin.overlay.filters.index import FilterIndex
from tocsin.overlay.filters.widest import Widest
from tocsin.overlay.routing import Assured, Publication, Router, Send, Subscriptions
from tocsin.overlay.topology import balanced
from tocsin.policies.message import parse_message_policy
from tocsin.sql import parse_filter

REPORTS = Dataset(
    "reports",
    (
        Column("kind", "STRING"),
        Column("place", "STRING"),
        Column("text", "STRING"),
        Column("level", "DOUBLE"),
        Column("lat", "DOUBLE"),
        Column("lon", "DOUBLE"),
    ),
)
FASTER = 50  # times a scan
EVENTS_PER_S = 10e6
BRANCHES = ("left", "right")

Record = dict[str, object]


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    chance = random.Random("overlay")
    count, rounds = (10_000, 3) if quick else (100_000, 5)
    say(f"{count:,} filters")
    filters = list(dict.fromkeys(_filter(chance, number) for number in range(count)))
    some = [_record(chance) for _ in range(200)]
    found = [_matching(filters, some, rounds, say)]
    found.append(_covering(filters[: count // 10], say))
    found.append(_routing(filters[: count // 10], some, rounds, say))
    return [*found, *_simulating(quick, rounds, say)]


# -- filters --------------------------------------------------------------------------------------


def _matching(
    filters: list[Filter], some: list[Record], rounds: int, say: Callable[[str], None]
) -> Finding:
    say("matching")
    index = FilterIndex()
    for filter_ in filters:
        index.add(filter_)
    listed = [(filter_, tests(filter_)) for filter_ in filters]
    ours_s, scan_s, matched = [], [], 0
    for at in range(rounds):
        began = time.process_time()
        found = [index.match(record) for record in some]
        ours_s.append((time.process_time() - began) / len(some))
        few = some[5 * at : 5 * at + 5]
        began = time.process_time()
        scanned = [_scan(listed, record) for record in few]
        scan_s.append((time.process_time() - began) / len(few))
        matched += sum(map(len, found))
        if [set(index.match(record)) for record in few] != [set(one) for one in scanned]:
            raise AssertionError("the index and the scan disagree")
    baseline = 1 / statistics.median(scan_s)
    return Finding(
        claim=f"records matched with {len(filters):,} filters",
        unit="/s",
        ours=1 / statistics.median(ours_s),
        baseline=baseline,
        baseline_is="the same tests, filter by filter",
        target=FASTER * baseline,
        details={"matches_per_record": matched / rounds / len(some), "rounds_s": ours_s},
    )


def _scan(listed: list[tuple[Filter, list[Test]]], record: Record) -> list[Filter]:
    found = []
    for filter_, asked in listed:
        for test in asked:
            if not test(record):
                break
        else:
            found.append(filter_)
    return found


def _covering(filters: list[Filter], say: Callable[[str], None]) -> Finding:
    say("covering")
    began = time.process_time()
    widest = Widest()
    for filter_ in filters:
        widest.add(filter_)
    ours_s = (time.process_time() - began) / len(filters)
    kept = list(widest)
    few = filters[:: max(1, len(filters) // 20)]
    began = time.process_time()
    for filter_ in few:
        for one in kept:
            covers(one, filter_)
            covers(filter_, one)
    scan_s = (time.process_time() - began) / len(few)
    return Finding(
        claim=f"subscriptions added to {len(filters):,}, with covering",
        unit="/s",
        ours=1 / ours_s,
        baseline=1 / scan_s,
        baseline_is="compared with each of the widest",
        details={"widest": len(kept)},
    )


def _filter(chance: random.Random, number: int) -> Filter:
    """Places, distances, levels, words, and several of these together."""
    low, (lat, lon), kind = chance.random(), _spot(chance), f"k{chance.randrange(10)}"
    ball = f"near(lat, lon, {lat}, {lon}, {chance.uniform(0.5, 2.0):.3f})"
    conditions = [
        f"place = 'place-{chance.randrange(50_000)}'",
        ball,
        f"level BETWEEN {low} AND {low + 0.0002}",
        f"kind IN ('{kind}', 'k3') AND level > {low} AND {ball}",
        f"place LIKE 'place-{chance.randrange(5_000)}%' AND level > {low}",
        f"kind = '{kind}' AND level >= {low} AND level < {low + 0.002}",
        f"kind = '{kind}' AND text LIKE '%w{chance.randrange(50_000)}e%'",
    ]
    return parse_filter(conditions[number % len(conditions)], REPORTS)


def _record(chance: random.Random) -> Record:
    lat, lon = _spot(chance)
    return {
        "kind": f"k{chance.randrange(10)}",
        "place": f"place-{chance.randrange(50_000)}",
        "text": " ".join(f"w{chance.randrange(50_000)}e" for _ in range(10)),
        "level": chance.random(),
        "lat": lat,
        "lon": lon,
    }


def _spot(chance: random.Random) -> tuple[float, float]:
    return round(33.0 + chance.random(), 6), round(-118.0 + chance.random(), 6)


# -- routing --------------------------------------------------------------------------------------


def _routing(
    filters: list[Filter], some: list[Record], rounds: int, say: Callable[[str], None]
) -> Finding:
    """Publications come in over one link, and leave over two others where they are asked for."""
    say("routing")
    listed = [(filter_, tests(filter_)) for filter_ in filters]
    ours_s, scan_s, sent = [], [], 0
    for _ in range(rounds):
        router = _router(filters)
        told = [
            Publication("reports", position, record) for position, record in enumerate(some * 5)
        ]
        began = time.process_time()
        effects = [
            router.heard("up", 1, number, publication)
            for number, publication in enumerate(told, start=2)
        ]
        ours_s.append((time.process_time() - began) / len(told))
        sent = sum(isinstance(effect, Send) for each in effects for effect in each)
        began = time.process_time()
        for record in some[:5]:
            _scan(listed, record)
        scan_s.append((time.process_time() - began) / 5)
    return Finding(
        claim=f"hops of publications, a table of {len(filters):,} filters",
        unit="/s",
        ours=1 / statistics.median(ours_s),
        baseline=1 / statistics.median(scan_s),
        baseline_is="a scan of the table alone",
        details={"sent_on": sent, "publications": len(some) * 5, "rounds_s": ours_s},
    )


def _router(filters: list[Filter]) -> Router:
    policy = parse_message_policy("basic")
    router = Router("here", MessageCache(policy, 100), policy.reaches)
    for neighbour in ("up", *BRANCHES):
        router.linked(neighbour, 1)
    for at, branch in enumerate(BRANCHES):
        router.heard(branch, 1, 1, Subscriptions("reports", tuple(filters[at::2])))
    router.heard("up", 1, 1, Assured("reports", -1, 10**9))
    return router


# -- the simulator --------------------------------------------------------------------------------


def _simulating(quick: bool, rounds: int, say: Callable[[str], None]) -> list[Finding]:
    say("the tree, by the live core")
    story = _story(500 if quick else 2_000)
    found = []
    for name in ("basic", "leaf"):
        policy = parse_message_policy(name)
        tree = balanced([str(number) for number in range(7)])
        began = time.process_time()
        live = play_live(story, tree, 25, 6, policy)
        live_s = (time.process_time() - began) / len(story)
        if live != play_compiled(story, tree, 25, 6, policy):
            raise AssertionError(f"{name}: the kernel and the live core disagree")
        say(f"the tree, {name}")
        simulate(TreeLoad(), policy, runs=1, seed=1)  # compiles
        runs = 500 if quick else 5_000
        rates = []
        for seed in range(rounds):
            began = time.process_time()
            seen = simulate(TreeLoad(), policy, runs=runs, seed=seed)
            rates.append(seen.events / (time.process_time() - began))
        found.append(
            Finding(
                claim=f"simulated events of a tree of 7 brokers, {name}",
                unit="/s",
                ours=statistics.median(rates),
                baseline=1 / live_s,
                baseline_is="the live routing core and caches in plain Python",
                target=EVENTS_PER_S,
                details={"rounds": rates, "events": {"baseline": len(story)}},
            )
        )
    return found


def _story(events: int) -> list[Happening]:
    chance = random.Random("story")
    there: list[tuple[int, int]] = []
    found: list[Happening] = []
    for _ in range(80):
        there.append((chance.randrange(7), chance.randrange(25)))
        found.append(Happening("comes", *there[-1]))
    found += [Happening("publishes", chance.randrange(7), message) for message in range(25)]
    for _ in range(events):
        if len(there) > 80 and chance.random() < 0.5:
            found.append(Happening("leaves", *there.pop(chance.randrange(len(there)))))
        else:
            there.append((chance.randrange(7), chance.randrange(25)))
            found.append(Happening("comes", *there[-1]))
    return found
