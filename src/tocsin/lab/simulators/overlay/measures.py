"""What runs of the tree have shown, with 95 % confidence intervals over runs (Student's t).

Times are means over all messages, zeros included. What a request costs is a mean over the answered
requests of all runs together: a quotient of two sums, and its interval that of a quotient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.lab.simulators.means import UNKNOWN, Mean, half_width, number
from tocsin.lab.simulators.overlay.simulator import Seen, Values


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


def to_dict(seen: Seen) -> dict[str, Any]:
    """For scripts: each measure, and the half-width of its 95 % confidence interval."""
    row: dict[str, Any] = {}
    for name, mean in measures(seen).items():
        row[name], row[f"{name}_half_width"] = number(mean.value), number(mean.half)
    return {
        **row,
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
        return UNKNOWN
    value = float(parts.mean()) / whole
    if count < 2:
        return Mean(value, UNKNOWN.half)
    return Mean(value, half_width(float((parts - value * wholes).std(ddof=1)) / whole, count))
