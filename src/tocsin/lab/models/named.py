"""The models by their names."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.errors import InvalidInput
from tocsin.lab.models.balanced import balanced
from tocsin.lab.models.exact import Start, exact
from tocsin.lab.models.lifetime import Lifetime
from tocsin.lab.models.multi import multi
from tocsin.lab.models.rates import rates_of
from tocsin.lab.models.reduced import reduced
from tocsin.lab.models.wide import wide
from tocsin.lab.workloads.messages import MessageLoad
from tocsin.policies.message import MessagePolicy

Model = Callable[[MessageLoad, MessagePolicy], Lifetime]

MODELS: dict[str, Model] = {
    "exact": lambda load, policy: exact(rates_of(load, policy)),
    "reduced": lambda load, policy: reduced(rates_of(load, policy)),
    "multi": lambda load, policy: multi(rates_of(load, policy)),
    "balanced": balanced,
    "wide": wide,
}


def model(
    name: str, load: MessageLoad, policy: MessagePolicy, start: Start = "stationary"
) -> Lifetime:
    if name not in MODELS:
        raise InvalidInput(
            f"there is no model {name!r}", field="model", hint=f"one of {', '.join(MODELS)}"
        )
    if start not in ("stationary", "binomial"):
        raise InvalidInput(
            f"there is no start {start!r}", field="start", hint="stationary or binomial"
        )
    if start == "binomial":
        if name != "exact":
            raise InvalidInput(
                "the printed start is of the exact model", field="start", hint="--model exact"
            )
        return exact(rates_of(load, policy), start)
    return MODELS[name](load, policy)
