"""Message caches of several brokers (survival): one simulated run, and what each model says of it.

What the axis is differs from variant to variant: `varies` names the number that follows it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from tocsin.errors import InvalidInput
from tocsin.lab.models.lifetime import Lifetime
from tocsin.lab.models.named import model
from tocsin.lab.simulators.message_cache import measures
from tocsin.lab.simulators.message_cache.simulator import Lives, simulate
from tocsin.lab.spec.study import Row, Study
from tocsin.lab.workloads.messages import MessageLoad
from tocsin.policies.message import parse_message_policy

THOUSANDTHS = 1_000  # values of an axis are whole numbers
KS_POINTS = 400
Varies = Literal["slots", "brokers", "client_load", "publication_rate", "popular", "unpopular"]


class SweptLoad(MessageLoad, frozen=True, kw_only=True):
    """`client_load` and `publication_rate` follow the axis in thousandths. `unpopular` and
    `popular` make two classes of messages, whose rates have the value as their ratio: the one
    below the others' rate, or the other above it."""

    varies: Varies = "slots"


class Observation(Struct, frozen=True, kw_only=True):
    """How much is seen of it."""

    messages: int = 50_000

    def __post_init__(self) -> None:
        if self.messages < 1:
            raise InvalidInput(f"messages is {self.messages}", field="messages", hint="1 or more")


class SeededLoad(Struct, frozen=True):
    load: SweptLoad
    seed: int

    def save(self, directory: Path) -> None:
        (directory / "load.json").write_bytes(msgspec.json.encode(self))


def make(settings: SweptLoad, seed: int) -> SeededLoad:
    return SeededLoad(settings, seed)


def load(directory: Path) -> SeededLoad:
    return msgspec.json.decode((directory / "load.json").read_bytes(), type=SeededLoad)


def at(settings: SweptLoad, value: int) -> SweptLoad:
    rate = settings.client_rate
    match settings.varies:
        case "slots" | "brokers":
            return replace(settings, **{settings.varies: value})
        case "client_load" | "publication_rate":
            return replace(settings, **{settings.varies: value / THOUSANDTHS})
        case "unpopular":
            return replace(settings, unpopular_share=0.5, unpopular_rate=rate / value)
        case "popular":
            return replace(
                settings,
                unpopular_share=0.5,
                unpopular_rate=rate,
                client_rate=rate * value,
                client_load=settings.client_load * value,
            )


def play(seeded: SeededLoad, policy: str, value: int, observation: Observation) -> Row:
    swept = asdict(seeded.load)
    del swept["varies"]
    plain = MessageLoad(**swept)
    lives = simulate(
        plain, parse_message_policy(policy), messages=observation.messages, seed=seeded.seed
    )
    row = _seen(lives)
    if plain.one_class:
        row |= _modelled(plain, policy, lives, row["mst_little"])
    return row


def _seen(lives: Lives) -> Row:
    load, mst = lives.load, measures.mean_survival(lives).value
    one_cache_s = load.slots / load.publication_rate
    settled = (lives.age_s > mst / 2) & (lives.age_s < 2 * mst)
    row: Row = {
        "mst": mst,
        "mst_little": measures.little(lives).value,
        "p_loss": measures.lost(lives).value,
        "q25": measures.quantile(lives, 0.25).value,
        "q75": measures.quantile(lives, 0.75).value,
        "one_cache_s": one_cache_s,  # survival, equation 1: if all caches hold the same …
        "all_caches_s": one_cache_s * load.brokers,  # … and if no two do
        "never_cached": load.nobody**load.brokers,
        "replicas": float(np.average(lives.replicas, weights=lives.alive)),
        "replicas_deviation": float(np.average(lives.replicas_deviation, weights=lives.alive)),
        "replicas_drift": float(np.ptp(lives.replicas[settled]) / lives.replicas[settled].mean())
        if settled.any()
        else float("nan"),
        "events": lives.events,
        "seconds": lives.seconds,
    }
    if not load.one_class:
        row["popular_mst"] = measures.of_class(lives, unpopular=False).value
        row["unpopular_mst"] = measures.of_class(lives, unpopular=True).value
    return row


def _modelled(load: MessageLoad, policy: str, lives: Lives, seen: float) -> Row:
    row: Row = {}
    names = ("exact", "reduced") if load.brokers == 1 else ("multi", "balanced", "wide")
    for name in names:
        try:
            answer = _lifetime(name, load, policy)
        except InvalidInput:
            continue  # too large for it
        row[f"{name}_mst"] = answer.mst
        row[f"{name}_error"] = abs(answer.mst / seen - 1.0)
        row[f"{name}_ks"] = distance(answer, lives)
    if "exact_mst" in row:
        exact, reduced = (_lifetime(name, load, policy) for name in names)
        printed = _lifetime("exact", load, policy, "binomial")
        row["exact_q25"], row["exact_q75"] = exact.quantile(0.25), exact.quantile(0.75)
        row["reduced_off"] = abs(reduced.mst / printed.mst - 1.0)
        row["reduced_off_ks"] = float(
            max(abs(reduced.survives(t) - exact.survives(t)) for t in exact.at_s)
        )
    return row


def distance(lifetime: Lifetime, lives: Lives) -> float:
    """Kolmogorov and Smirnov's, between a model and what was seen."""
    seen = np.sort(lives.survival_s)
    times = np.quantile(seen, np.linspace(0.0, 1.0, KS_POINTS))
    left = 1.0 - np.searchsorted(seen, times, side="right") / len(seen)
    return float(
        max(abs(lifetime.survives(t) - share) for t, share in zip(times, left, strict=True))
    )


@cache
def _lifetime(name: str, load: MessageLoad, policy: str, start: Any = "stationary") -> Lifetime:
    """The same for all seeds."""
    return model(name, load, parse_message_policy(policy), start)


def functions(policy: str) -> list[Any]:
    return parse_message_policy(policy).functions


MESSAGE_CACHE = Study(
    name="message-cache",
    workload=SweptLoad,
    environment=Observation,
    make=make,
    load=load,
    play=play,
    at=at,
    functions=functions,
)
