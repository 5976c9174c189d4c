"""The policy of a page cache as a user names it: `gdstar(2)`, `dc-ta(phi=0.25)`, `hug`."""

from __future__ import annotations

from tocsin.policies.page.design import PAGE, PagePolicy

FIELD = "page_policy"


def page_policy_names() -> list[str]:
    return list(PAGE)


def parse_page_policy(text: str, field: str = FIELD) -> PagePolicy:
    chosen = PAGE.choose(text, field)
    built: PagePolicy = chosen.function(text.strip(), *chosen.values)
    return built
