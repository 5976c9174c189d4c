"""How long messages survived, with 95 % confidence intervals.

Neighbours in time share their fate, so intervals are over batches of messages (Student's t), long
against a message's life. The mean survival time is measured twice: over messages, and by Little's
law (survival 3) over time, as the number of messages in the caches divided by λb.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.lab.simulators.means import UNKNOWN, Mean, half_width, number
from tocsin.lab.simulators.message_cache.simulator import Lives, Values

BATCHES = 20
SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
POINTS = 100
SHOWN_LEFT = 0.001  # replicas are told up to the age that so many messages reach


def mean_survival(lives: Lives) -> Mean:
    return _over_batches([float(batch.mean()) for batch in _batches(lives.survival_s)])


def little(lives: Lives) -> Mean:
    """MST = E(N) / λb."""
    edges = np.linspace(0, len(lives.published_s) - 1, BATCHES + 1).astype(int)
    spans_s = np.diff(lives.published_s[edges])
    seen = np.diff(lives.message_s[edges])[spans_s > 0] / spans_s[spans_s > 0]
    return _over_batches(list(seen / lives.load.publication_rate))


def lost(lives: Lives) -> Mean:
    """P_loss."""
    return _over_batches([float((batch == 0).mean()) for batch in _batches(lives.survival_s)])


def survives(lives: Lives, at_s: float) -> Mean:
    """P(T > t)."""
    return _over_batches([float((batch > at_s).mean()) for batch in _batches(lives.survival_s)])


def quantile(lives: Lives, share: float) -> Mean:
    """The time after which this share of all messages was gone."""
    mean = _over_batches([float(np.quantile(batch, share)) for batch in _batches(lives.survival_s)])
    return Mean(float(np.quantile(lives.survival_s, share)), mean.half)


def of_class(lives: Lives, *, unpopular: bool) -> Mean:
    """The mean survival time of popular or unpopular messages."""
    mine = lives.survival_s[lives.unpopular == unpopular]
    return _over_batches([float(batch.mean()) for batch in _batches(mine)])


def to_dict(lives: Lives) -> dict[str, Any]:
    """For scripts: as models answer, with half-widths of 95 % confidence intervals."""
    mst, by_little, loss = mean_survival(lives), little(lives), lost(lives)
    quantiles = {f"{share:g}": quantile(lives, share) for share in SHARES}
    times = np.linspace(0.0, quantiles[f"{SHARES[-1]:g}"].value, POINTS + 1)
    curve = [survives(lives, float(at_s)) for at_s in times]
    reached = lives.alive >= SHOWN_LEFT * len(lives.survival_s)
    return {
        "mst": mst.value,
        "mst_half_width": number(mst.half),
        "mst_by_little": by_little.value,
        "mst_by_little_half_width": number(by_little.half),
        "p_loss": loss.value,
        "p_loss_half_width": number(loss.half),
        "quantiles": {share: mean.value for share, mean in quantiles.items()},
        "quantile_half_widths": {share: number(mean.half) for share, mean in quantiles.items()},
        "curve": {
            "time_s": [float(at_s) for at_s in times],
            "survives": [point.value for point in curve],
            "half_width": [number(point.half) for point in curve],
        },
        "replicas": {
            "age_s": [float(age_s) for age_s in lives.age_s[reached]],
            "mean": [float(mean) for mean in lives.replicas[reached]],
            "deviation": [float(deviation) for deviation in lives.replicas_deviation[reached]],
        },
        "messages": len(lives.survival_s),
        "events": lives.events,
        "seconds": lives.seconds,
    }


def _batches(values: Values) -> list[Values]:
    return [batch for batch in np.array_split(values, BATCHES) if len(batch)]


def _over_batches(means: list[float]) -> Mean:
    count = len(means)
    if count == 0:
        return UNKNOWN
    value = float(np.mean(means))
    if count < BATCHES:
        return Mean(value, UNKNOWN.half)
    return Mean(value, half_width(float(np.std(means, ddof=1)), count))
