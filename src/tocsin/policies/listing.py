"""The reference page of all policies, written from their registries, so that it cannot go stale.

python -m tocsin.policies.listing > docs/reference/policies.md
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from tocsin.policies import FAMILIES, admission, policy_names
from tocsin.policies.message import MESSAGE_FAMILIES
from tocsin.policies.page import PAGE
from tocsin.policies.registry import Policy
from tocsin.policies.result import estimates, eviction, expiry

_PACKAGES: dict[str, ModuleType] = {"admit": admission, "evict": eviction, "expire": expiry}

_PAGE = """\
# Cache policies

A broker keeps results in its result cache under a byte budget (the setting `cache_bytes`). What it
caches, drops and lets expire is its policy (the setting `cache_policy`); `PUT /v1/cache` changes it
at run time. The lab simulates the same functions.

*This page is written by* `python -m tocsin.policies.listing`*.*

## How they are named

Every policy of every cache is written `name`, `name(value, …)` or `name(parameter=value, …)`; a
parameter that is left out has its default. For a result cache, one name is enough: {alone}.
An eviction or expiry policy named alone caches everything that somebody waits for. The long form
names one policy of each family, in any order:

| you write | it means |
|---|---|
{examples}

A family that is not named: everything is admitted, nothing expires, nothing is evicted. Something
must leave a full cache, so a policy that caches names `evict` or `expire`. With `evict` the cache
never exceeds its budget; with `expire` alone the budget holds on average, and how far it was
exceeded is counted. With both, whatever comes first counts.

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
a page as it is published, if subscriptions match it and enough is there that is worth less. The
lab [plays traces](../lab/pages.md) under each.

| policy | parameters | what it does |
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

One file, in the folder of its family under `src/tocsin/policies/`, is all that a policy needs: the
broker takes it at once, the lab compiles it, this page lists it. The decorator says what its name
is and which parameters it may carry, with their defaults and bounds; the docstring becomes its line
here. A policy of result caches that evicts looks at one candidate, the tail of one cache
(`result/candidate.py` lists what it can see), and answers with a score: the smallest is dropped.
This is `result/eviction/widest.py`:

```python
{example}```

Try it: `tocsin lab run edge-caching --policies widest,lsc`, or `--policy "widest(weight=2)"` for a
broker. A score may change only with what happens to its own cache, never with the passing of time
alone.

A policy that must remember something declares the record of its **state**: numbers, and lists or
arrays of floats, with their first values. The live cache keeps it as an object, the lab as a record
of an array. All functions of such a policy take the state first, what they are told next, and the
values of the parameters last. Which functions there are, the package of the family says:
`result/eviction/__init__.py`, `admission/__init__.py`, and `PagePolicy` in `page/design.py`. A page
policy that learns how many notifications are followed, `page/followed.py`:

```python
{page_example}```

Try it: `tocsin lab run page-delivery --policies followed,hug`. Functions may call others of their
file. Work an example by hand in `tests/policies/`; tests ask for its counts on a seeded day
(`test_seeded_day.py`) and for this page, written anew.
"""

_EXAMPLES = {
    "lsc": "`admit=all evict=lsc`",
    "ttl": "`admit=all expire=ttl`",
    "none": "`admit=none`: nothing is cached, nothing is fetched ahead",
    "evict=lsc expire=ttl": "drop what is past its time, and make room when that is not enough",
    "admit=threshold(0.2,0.8) evict=lsc": "cache only what enough subscribers wait for",
}

_EXAMPLE = '''\
"""Largest first."""

from __future__ import annotations

from tocsin.policies.registry import Parameter
from tocsin.policies.result.candidate import Candidate
from tocsin.policies.result.eviction import EVICTION


@EVICTION.register("widest", Parameter("weight", 1.0, at_most=1000.0))
def widest(candidate: Candidate, weight: float) -> float:
    """Drop the largest object, less so the more subscribers wait for it (mine, today)."""
    return weight * candidate.waiting - candidate.tail_size_bytes
'''

_PAGE_EXAMPLE = '''\
"""Notifications that are followed."""

from __future__ import annotations

from msgspec import Struct

from tocsin.policies.page.design import PAGE, Event, Page, PagePolicy, Rule, undivided
from tocsin.policies.registry import Parameter


class Followed(Struct):
    """Counted as pages are published, and as notifications lead to requests."""

    subscriptions: float = 0.0  # of all pages together
    requests: float = 0.0  # that a notification led to


def observe(
    state: Followed, page: Page, event: int, before: int, operation: int, doubt: float
) -> None:
    if event == Event.BORN:
        state.subscriptions += page.subscriptions
    elif event == Event.PUBLISHED:
        state.subscriptions += page.subscriptions - before
    elif event == Event.NOTIFIED:
        state.requests += 1


def frequency(state: Followed, page: Page, doubt: float) -> float:
    """a_NS + q·max(0, s − a_S), where q is the part of subscriptions that asked so far."""
    part = (state.requests + doubt) / (state.subscriptions + doubt)
    return page.browsed + part * max(0, page.subscriptions - page.notified)


@PAGE.register("followed", Parameter("doubt", 10.0, at_least=1.0))
def followed(text: str, doubt: float) -> PagePolicy:
    """f = a_NS + q·max(0, s − a_S): HUG that learns how many subscribers ask (mine, today)."""
    return undivided(
        text, Rule(frequency), pushes=True, values=(doubt,), state=Followed, observe=observe
    )
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
        page_example=_PAGE_EXAMPLE,
    )


def _family(family: str) -> str:
    heading = str(_PACKAGES[family].__doc__).splitlines()[0]
    registry = FAMILIES[family]
    rows = "\n".join(_row(family, registry[name]) for name in registry)
    return f"\n## {heading}\n\n| policy | parameters | what it does |\n|---|---|---|\n{rows}\n"


def _message_family(family: str) -> str:
    package = importlib.import_module(f"tocsin.policies.message.{family}")
    heading = str(package.__doc__).splitlines()[0]
    registry = MESSAGE_FAMILIES[family]
    rows = "\n".join(f"| `{name}` | {registry[name].summary} |" for name in registry)
    return f"\n### {heading}\n\n| policy | what it does |\n|---|---|\n{rows}\n"


def _row(family: str, policy: Policy[Any]) -> str:
    return f"| `{family}={policy.call}` | {_parameters(policy)} | {policy.summary} |"


def _page_row(policy: Policy[Any]) -> str:
    return f"| `{policy.call}` | {_parameters(policy)} | {policy.summary} |"


def _parameters(policy: Policy[Any]) -> str:
    bounds = [f"{parameter.name} {parameter.bounds}" for parameter in policy.parameters]
    return "; ".join(bounds) or "–"


if __name__ == "__main__":
    print(page(), end="")
