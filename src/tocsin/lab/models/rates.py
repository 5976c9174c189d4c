"""What drives a message through a cache: rates of survival 3, 4 and 5, corrected.

The paper's letters: π0 = e^−ρ, μd = λc·π0/(1−π0), λn = λb·(1−π0) for `sel` and λb for `all`, and
λg = λc for `prt`. Under `nop` nothing moves a message but what is put on top of it.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.lab.workloads.messages import MessageLoad
from tocsin.policies.message import MessagePolicy

Values = NDArray[np.float64]
MODELLED = ({"sel", "all"}, {"sub", "fld"}, {"prt", "nop"})


class Rates(Struct, frozen=True, kw_only=True):
    """At each broker. `alive` and `ahead` are by slot, 0 to k; slot 0: not cached."""

    brokers: int
    slots: int
    published: float  # λb
    client: float  # λc
    nobody: float  # π0
    kept: float  # probability that a broker keeps a publication
    regenerated: float  # λg
    degraded: float  # μd
    alive_count: Values  # ψ: probabilities of so many alive messages in a cache
    alive: Values  # π^alive
    ahead: Values  # E[U], alive messages nearer to the top
    floods: bool
    together: bool  # every broker keeps every publication: all are pushed at once

    @property
    def lost(self) -> float:
        """The probability that a publication is cached nowhere."""
        return float((1.0 - self.kept) ** self.brokers)


def rates_of(load: MessageLoad, policy: MessagePolicy, copies: float = 0.0) -> Rates:
    """`copies` is the rate at which copies of other messages are put into each cache. They come
    with a client, so they are alive: the paper leaves them out of ψ."""
    if any(part not in known for part, known in zip(policy.parts, MODELLED, strict=True)):
        raise InvalidInput(
            f"there is no model of {policy.text}", field="policy", hint="simulate it instead"
        )
    if not load.one_class:
        raise InvalidInput(
            "models know one class of messages",
            field="unpopular-share",
            hint="simulate two classes instead",
        )
    caching, request, priority = policy.parts
    slots, nobody = load.slots, load.nobody
    kept = 1.0 if caching == "all" else 1.0 - nobody
    degraded = load.client_rate * nobody / (1.0 - nobody)
    count = _alive_count(slots, load, load.publication_rate * kept + copies)
    moves = priority == "prt"
    return Rates(
        brokers=load.brokers,
        slots=slots,
        published=load.publication_rate,
        client=load.client_rate,
        nobody=nobody,
        kept=kept,
        regenerated=load.client_rate if moves else 0.0,
        degraded=degraded if moves else 0.0,
        alive_count=count,
        alive=_alive(count, moves),
        ahead=_ahead(count),
        floods=request == "fld",
        together=caching == "all",
    )


def _alive_count(slots: int, load: MessageLoad, incoming: float) -> Values:
    """ψ of survival 5, in its corrected form: ψ_i = ψ_0 ∏_{j<i} ((k−j)λc + λ) / (i! μd^i)."""
    i = np.arange(1, slots + 1)
    births = np.log((slots - i + 1) * load.client_rate + incoming)
    deaths = np.log(i) + np.log(load.client_rate / (1 - load.nobody)) - load.client_load
    logs = np.concatenate([[0.0], np.cumsum(births - deaths)])
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _alive(count: Values, moves: bool) -> Values:
    """Under `prt` alive messages are those on top, so that slot i is alive if i of them are. Under
    `nop` (the paper does not say) they are anywhere."""
    slots = len(count) - 1
    if not moves:
        share = float(count @ np.arange(slots + 1)) / slots
        return np.concatenate([[0.0], np.full(slots, share)])
    return np.concatenate([[0.0], np.minimum(1.0, np.cumsum(count[::-1])[::-1][1:])])


def _ahead(count: Values) -> Values:
    """E[U_i] = Σ_j ψ_j min(j, i−1), over j = 0..k (the paper leaves k out)."""
    at_least = np.cumsum(count[::-1])[::-1]  # P(alive ≥ j)
    return np.concatenate([[0.0, 0.0], np.cumsum(at_least[1:-1])])
