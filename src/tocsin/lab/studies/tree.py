"""Message caches in a tree of brokers; the axis is the clients' load, the size of the caches or the
number of brokers.

A seed stands for so many runs of its own, all drawn in the kernel: there is no workload to keep.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tocsin.errors import InvalidInput
from tocsin.lab.live.brokers.form import LIVE_BROKERS
from tocsin.lab.simulators.overlay.closed_form import absorption_without_eviction_s
from tocsin.lab.simulators.overlay.measures import measures
from tocsin.lab.simulators.overlay.simulator import simulate
from tocsin.lab.spec.study import Row, Study
from tocsin.lab.workloads.tree import TreeLoad
from tocsin.policies.message import parse_message_policy

_FILE = "runs.json"


class Runs(Struct, frozen=True):
    """How much is run for a point; live, a run is played once."""

    runs: int = 100
    speed: float = 1.0  # live: seconds of the clients in one of ours

    def __post_init__(self) -> None:
        if self.runs < 1:
            raise InvalidInput(f"runs is {self.runs}", field="runs", hint="1 or more")
        if not 0 < self.speed < float("inf"):
            raise InvalidInput(f"speed is {self.speed}", field="speed", hint="more than 0")


class Seeded(Struct, frozen=True):
    """What a run is drawn from."""

    load: TreeLoad
    seed: int

    def save(self, directory: Path) -> None:
        (directory / _FILE).write_bytes(msgspec.json.encode(self))


def make(load: TreeLoad, seed: int) -> Seeded:
    return Seeded(load, seed)


def load_seeded(directory: Path) -> Seeded:
    return msgspec.json.decode((directory / _FILE).read_bytes(), type=Seeded)


def play(seeded: Seeded, policy: str, value: int, runs: Runs) -> Row:
    seen = simulate(seeded.load, parse_message_policy(policy), runs=runs.runs, seed=seeded.seed)
    duration_s = seeded.load.duration_s
    there = {"there_share": float(seen.absorbed_s.mean()) / duration_s} if duration_s else {}
    return {
        **there,  # the part of a run that messages were to be had
        **{name: mean.value for name, mean in measures(seen).items()},
        "absorption_without_eviction": absorption_without_eviction_s(seeded.load),
        "gone": float(seen.gone.mean()),
        "events": seen.events,
        "seconds": seen.seconds,
    }


def of_load(load: TreeLoad, percent: int) -> TreeLoad:
    return replace(load, client_load=percent / 100)


def of_slots(load: TreeLoad, percent: int) -> TreeLoad:
    """Of the number of messages, but one at least."""
    return replace(load, slots=max(1, round(percent / 100 * load.messages)))


def of_brokers(load: TreeLoad, brokers: int) -> TreeLoad:
    return replace(load, brokers=brokers)


def functions(policy: str) -> list[Any]:
    return parse_message_policy(policy).functions


def _study(name: str, at: Any) -> Study:
    return Study(
        name=name,
        workload=TreeLoad,
        environment=Runs,
        make=make,
        load=load_seeded,
        play=play,
        at=at,
        functions=functions,
        live=LIVE_BROKERS,
    )


TREE_BY_LOAD = _study("tree-by-load", of_load)
TREE_BY_SLOTS = _study("tree-by-slots", of_slots)
TREE_BY_BROKERS = _study("tree-by-brokers", of_brokers)
