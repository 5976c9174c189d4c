"""How often quotas refused something, by the quota's name: at the cluster, and at brokers."""

from __future__ import annotations

from prometheus_client import Counter

from tocsin.errors import QuotaExceeded

REFUSED = Counter("tocsin_quota_refusals_total", "What quotas refused", ["quota"])


def refusal(error: QuotaExceeded) -> QuotaExceeded:
    """The error to raise, counted."""
    REFUSED.labels(error.field).inc()
    return error
