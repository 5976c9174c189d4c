"""Page caches: what a broker keeps of the pages that its notifications point to (delivery 2).

A page is worth V = L + (f·c/size)^(1/β), and the smallest V leaves first. A policy says what f is,
and whether a page that is worth too little is stored at all: one file a policy. Those with two
portions give each a rule of its own.
"""

from tocsin.policies.page.choice import page_policy_names, parse_page_policy
from tocsin.policies.page.design import (
    NOTIFIED_BROWSED,
    PAGE,
    PUSHED_REQUESTED,
    WHOLE,
    Event,
    Page,
    PagePolicy,
    Rule,
    limits,
    portion_names,
    worth,
)

__all__ = [
    "NOTIFIED_BROWSED",
    "PAGE",
    "PUSHED_REQUESTED",
    "WHOLE",
    "Event",
    "Page",
    "PagePolicy",
    "Rule",
    "limits",
    "page_policy_names",
    "parse_page_policy",
    "portion_names",
    "worth",
]

PAGE.find_all(__name__, __path__)
