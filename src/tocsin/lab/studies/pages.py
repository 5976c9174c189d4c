"""Page caches of a news site's edge servers; the axis is the quality of subscriptions, SQ, in
percent. What is told is the miss ratio over all servers (delivery, equation 7), and how much of
GD*'s misses a policy spares (delivery, equation 8).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tocsin.errors import InvalidInput
from tocsin.lab.bounds.interval import Interval
from tocsin.lab.bounds.pages import certify_pages
from tocsin.lab.simulators.page_cache.simulator import simulate
from tocsin.lab.spec.columns import bound_columns
from tocsin.lab.spec.study import Row, Study
from tocsin.lab.workloads.pages.news import News, NewsSettings, news
from tocsin.lab.workloads.pages.operations import Operations
from tocsin.policies.page import PagePolicy, parse_page_policy

BASELINE = "gdstar"
ODT = "odt"
PHIS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Where ODT, DC-TA with the best share for subscribers, is sought (delivery 4.3.2)."""
SUMS = (
    "hits", "requests", "hit_bytes", "request_bytes", "stored", "aborted", "miss_stored",
    "miss_not_stored", "evicted", "operations", "seconds",
)  # fmt: skip


class Caches(Struct, frozen=True):
    """What each server has."""

    share: float = 0.05  # of the bytes of the pages that are requested there
    beta: float = 1.0  # of all policies

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1e6:
            raise InvalidInput(f"share is {self.share}", field="share", hint="0 or more")
        if not 0.01 <= self.beta <= 100:
            raise InvalidInput(f"beta is {self.beta}", field="beta", hint="from 0.01 to 100")


def at(settings: NewsSettings, percent: int) -> NewsSettings:
    return replace(settings, quality=percent / 100)


def play(news: News, policy: str, value: int, caches: Caches) -> Row:
    """ODT's share is the best for these very requests: no less than the paper's, which is one for
    each F."""
    baseline = _summed(news, parse_page_policy(BASELINE), caches)
    phi = float("nan")
    if policy == ODT:
        tried = {
            share: _summed(news, parse_page_policy(f"dc-ta({share})"), caches) for share in PHIS
        }
        phi = max(tried, key=lambda share: tried[share]["hits"])
        sums = tried[phi]
    else:
        sums = _summed(news, parse_page_policy(policy), caches)
    misses = sums["requests"] - sums["hits"]
    spared = sums["hits"] - baseline["hits"]
    return {
        **sums,
        "miss_ratio": misses / sums["requests"],
        "hit_ratio": sums["hits"] / sums["requests"],
        "byte_hit_ratio": sums["hit_bytes"] / sums["request_bytes"],
        "gain": spared / (baseline["requests"] - baseline["hits"]),
        "phi": phi,
    }


def bound(news: News, value: int, caches: Caches) -> Row:
    """Where the best choice of all servers lies: pages may be placed as they are published, if
    subscriptions match them, and whenever they are requested."""
    baseline = _summed(news, parse_page_policy(BASELINE), caches)
    requests, missed = baseline["requests"], baseline["requests"] - baseline["hits"]
    intervals = [
        certify_pages(operations, _capacity(operations, caches)) for operations in news.by_server()
    ]
    ends = [
        sum(interval.reached for interval in intervals),
        sum(interval.limit for interval in intervals),
    ]
    row: Row = {}
    for metric, interval in {
        "hit_ratio": Interval(*(hits / requests for hits in ends)),
        "miss_ratio": Interval(*(1 - hits / requests for hits in ends)),
        "gain": Interval(*((hits - baseline["hits"]) / missed for hits in ends)),
    }.items():
        best, reached = bound_columns(metric)
        row[best], row[reached] = interval.limit, interval.reached
    return row


def _capacity(operations: Operations, caches: Caches) -> int:
    return int(caches.share * operations.requested_bytes)


def _summed(news: News, policy: PagePolicy, caches: Caches) -> dict[str, Any]:
    if caches.beta != 1.0:
        policy = _with_beta(policy, caches.beta)
    sums: dict[str, Any] = dict.fromkeys(SUMS, 0)
    for operations in news.by_server():
        row = simulate(operations, policy, _capacity(operations, caches)).row()
        for name in SUMS:
            sums[name] += row[name]
    return sums


def _with_beta(policy: PagePolicy, beta: float) -> PagePolicy:
    """With an L there is a root. DC's push portion (delivery, equation 5) and `learned-demand` have
    none."""
    first = replace(policy.first, beta=beta) if policy.first.ages else policy.first
    return replace(policy, first=first, second=replace(policy.second, beta=beta))


def functions(policy: str) -> list[Any]:
    chosen = parse_page_policy("dc-ta" if policy == ODT else policy)
    hooks = [hook for hook in (chosen.begin, chosen.observe) if hook is not None]
    return [chosen.first.frequency, chosen.second.frequency, *hooks]


PAGES = Study(
    name="pages",
    workload=NewsSettings,
    environment=Caches,
    make=news,
    load=News.load,
    play=play,
    bound=bound,
    at=at,
    functions=functions,
)
