"""The reference page of all policies, written from their registries, so that it cannot go stale.

python -m tocsin.policies.listing > docs/reference/policies.md
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from tocsin.policies import FAMILIES, admission, estimates, eviction, expiry, policy_names
from tocsin.policies.message import MESSAGE_FAMILIES
from tocsin.policies.page import PAGE
from tocsin.policies.registry import Policy

_PACKAGES: dict[str, ModuleType] = {"admit": admission, "evict": eviction, "expire": expiry}

_PAGE = """\
# Cache policies

A broker keeps results in its result cache under a byte budget (the setting `cache_bytes`). What it
caches, drops and lets expire is its policy (the setting `cache_policy`); `PUT /v1/cache` changes it
at run time. The lab simulates the same functions.

*This page is written by* `python -m tocsin.policies.listing`*.*

## How they are named

One name is enough: {alone}.
An eviction or expiry policy named alone caches everything that somebody waits for. The long form
names one policy of each family, in any order:

| you write | it means |
|---|---|
{examples}

A family that is not named: everything is admitted, nothing expires, nothing is evicted. Something
must leave a full cache, so a policy that caches names `evict` or `expire`. With `evict` the cache
never exceeds its budget; with `expire` alone the budget holds on average, and how far it was
exceeded is counted. With both, whatever comes first counts. Numbers are given all or not at all.

A result cache is always one contiguous newest run of results, so only its oldest result, the tail,
can be dropped, and a result that is refused takes the older ones with it. Whatever is not cached is
read from the result store: a policy decides how fast answers are, never what they are.
{families}
## Message caches

A broker may also keep messages, to answer those who come later and ask for old ones. Such a cache
is a list: a message is put on top, the one at the bottom makes room. Its policy is one of each
family, written in this order: `sel-sub-prt`. `basic` is short for `sel-sub-fifo`, `leaf` for
`leaf-sub-fifo`. The lab says how long messages [survive](../lab/survival.md) under each, and what
requests for them cost in a [tree of brokers](../lab/overlay.md).
{message_families}
## Page caches

What a broker keeps of the pages (attachments) that its notifications point to. A page is worth
V = L + (f·c/size)^(1/β), and the smallest V leaves first; of equal ones, the one set longest ago.
A policy says what f is. L, the age, is the value of the last page that left. Those that push store
a page as it is published, if subscriptions match it and enough is there that is worth less. Numbers
may be left out from the right. The lab [plays traces](../lab/pages.md) under each.

| policy | numbers | what it does |
|---|---|---|
{page_policies}

A newer version of the same story makes a page uninteresting under every policy: it leaves before
all others, and is not stored again.

## Words

| word | meaning |
|---|---|
| n | the number of subscribers that a new result is for |
| f | the number of subscribers that have not taken the tail yet |
| s | the size of the tail in bytes |
| l | what a fetch from the cluster takes: a moving average, in seconds |
| a_S, a_NS, a | accesses of a page that a notification led to; all others; both together |
| s, c of a page | how many subscriptions match it; what a fetch costs, the same for all |
| T | the time to live of equation 7, estimated every {every_s:g} s and when first needed |
| BAD | *Edge Caching for Enriched Notifications Delivery in Big Active Data*, ICDCS 2018 |
| delivery | *Subscription-enhanced Content Delivery*, 2003 |
| survival | *Modeling the Dynamics of Caching in Content-Based Publish/Subscribe*, SAC 2011 |
| overlay | *Caching in content-based publish/subscribe systems*, Globecom 2009 |
| kafka | *Effect of Caching in a Content-Based Pub/Sub System over Kafka*, 2021 |

## Add your own

One file, in the folder of its family under `src/tocsin/policies/`. The function looks at one
candidate, the tail of one cache (`candidate.py` lists what it can see), and answers with a score:
the smallest is dropped. The docstring becomes its line on this page.

```python
{example}```

The broker takes it at once, and the lab compiles it:
`tocsin lab run edge-caching --policies {example_name},lsc`.
A score may change only with what happens to its own cache, never with the passing of time alone.
Work an example by hand in `tests/policies/`; tests ask for its counts on a seeded day
(`test_seeded_day.py`) and for this page, written anew.
"""

_EXAMPLES = {
    "lsc": "`admit=all evict=lsc`",
    "ttl": "`admit=all expire=ttl`",
    "none": "`admit=none`: nothing is cached, nothing is fetched ahead",
    "evict=lsc expire=ttl": "drop what is past its time, and make room when that is not enough",
    "admit=threshold(0.2,0.8) evict=lsc": "cache only what enough subscribers wait for",
}

_EXAMPLE_NAME = "widest"
_EXAMPLE = '''\
"""Largest first."""

from __future__ import annotations

from tocsin.policies.candidate import Candidate
from tocsin.policies.eviction import EVICTION


@EVICTION.register("widest")
def widest(candidate: Candidate) -> float:
    """Drop the largest object (mine, today)."""
    return -float(candidate.tail_size_bytes)
'''


def page() -> str:
    return _PAGE.format(
        alone=", ".join(f"`{name}`" for name in policy_names()),
        examples="\n".join(f"| `{text}` | {meaning} |" for text, meaning in _EXAMPLES.items()),
        families="".join(_family(family) for family in FAMILIES),
        message_families="".join(_message_family(family) for family in MESSAGE_FAMILIES),
        page_policies="\n".join(_page_row(PAGE[name]) for name in PAGE),
        every_s=estimates.REESTIMATE_EVERY_S,
        example=_EXAMPLE,
        example_name=_EXAMPLE_NAME,
    )


def _family(family: str) -> str:
    heading = str(_PACKAGES[family].__doc__).splitlines()[0]
    registry = FAMILIES[family]
    rows = "\n".join(_row(family, registry[name]) for name in registry)
    return f"\n## {heading}\n\n| policy | numbers | what it does |\n|---|---|---|\n{rows}\n"


def _message_family(family: str) -> str:
    package = importlib.import_module(f"tocsin.policies.message.{family}")
    heading = str(package.__doc__).splitlines()[0]
    registry = MESSAGE_FAMILIES[family]
    rows = "\n".join(f"| `{name}` | {registry[name].summary} |" for name in registry)
    return f"\n### {heading}\n\n| policy | what it does |\n|---|---|\n{rows}\n"


def _row(family: str, policy: Policy[Any]) -> str:
    numbers = ", ".join(f"{one.name} ≥ {one.at_least:g}" for one in policy.parameters)
    return f"| `{family}={policy.call}` | {numbers or '–'} | {policy.summary} |"


def _page_row(policy: Policy[Any]) -> str:
    numbers = ", ".join(
        f"{one.name} {one.at_least:g} to {one.at_most:g}" for one in policy.parameters
    )
    return f"| `{policy.call}` | {numbers or '–'} | {policy.summary} |"


if __name__ == "__main__":
    print(page(), end="")
