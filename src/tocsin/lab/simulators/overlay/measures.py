"""What runs of the tree have shown, with 95 % confidence intervals over runs (Student's t).

Times are means over all messages, zeros included. What a request costs is a mean over the answered
requests of all runs together: a quotient of two sums, and its interval that of a quotient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct
from scipy.special import stdtrit

from tocsin.lab.simulators.overlay.simulator import Seen, Values

CONFIDENCE = 0.95


class Mean(Struct, frozen=True):
    value: float
    half: float  # of its confidence interval; NaN: one run


def measures(seen: Seen) -> dict[str, Mean]:
    """Times in seconds; the others are of one request."""
    return {
        "absorption_time": _quotient(seen.absorbed_s.mean(axis=1), np.ones(len(seen.requests))),
        "hops": _quotient(seen.hops, seen.answered),
        "responses": _quotient(seen.responses, seen.answered),
        "delivered": _quotient(seen.delivered, seen.answered),
        "slots_searched": _quotient(seen.slots_searched, seen.answered),
        "links": _quotient(seen.links, seen.answered),
        "delivery_ratio": _quotient(seen.answered, seen.requests),
    }


def told(seen: Seen) -> dict[str, Any]:
    """For scripts: each measure, and the half-width of its 95 % confidence interval."""
    found: dict[str, Any] = {}
    for name, mean in measures(seen).items():
        found[name], found[f"{name}_half_width"] = _number(mean.value), _number(mean.half)
    return {
        **found,
        "gone": float(seen.gone.mean()),
        "requests": int(seen.requests.sum()),
        "events": seen.events,
        "seconds": seen.seconds,
    }


def _quotient(parts: Values, wholes: Values) -> Mean:
    """Of the sums of both, one pair a run (the delta method)."""
    count = len(parts)
    whole = float(wholes.mean())
    if whole == 0.0:
        return Mean(math.nan, math.nan)
    value = float(parts.mean()) / whole
    if count < 2:
        return Mean(value, math.nan)
    spread = float((parts - value * wholes).std(ddof=1)) / whole / math.sqrt(count)
    return Mean(value, float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * spread)


def _number(value: float) -> float | None:
    """JSON knows no NaN."""
    return None if math.isnan(value) else value
