"""How the demo's outcome is shown: a table for people, JSON for programs.

Knows the ledger's records and nothing of how they came about.
"""

from __future__ import annotations

from typing import Any

import msgspec
from rich.table import Table

from tocsin.demo.ledger import Account, Outcome


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """The keys that programs rely on: the totals first, then each broker's part."""
    return {
        "published": outcome.published,
        "results": outcome.results,
        **_account(outcome.total),
        "promises_held": outcome.promises_held,
        "broken": list(outcome.broken),
        "brokers": {name: _account(account) for name, account in outcome.brokers.items()},
    }


def as_json(outcome: Outcome, **details: Any) -> bytes:
    """The outcome as an indented JSON document; `details` (the run's settings) come last."""
    return msgspec.json.format(msgspec.json.encode({**as_dict(outcome), **details}), indent=2)


def as_table(outcome: Outcome) -> Table:
    """One column per broker and one for all; a broken promise is red."""
    columns = [*outcome.brokers.items(), ("total", outcome.total)]
    table = Table(title="What reached the subscribers", title_justify="left")
    table.add_column("")
    for name, _ in columns:
        table.add_column(name, justify="right")

    def row(label: str, cells: list[str]) -> None:
        table.add_row(label, *cells)

    apart = [""] * len(outcome.brokers)
    row("published", [*apart, f"{outcome.published:,}"])
    row("results", [*apart, f"{outcome.results:,}"])
    row("delivered", [f"{account.delivered:,}" for _, account in columns])
    row("lost", [_promise(account.lost) for _, account in columns])
    row("doubled", [_promise(account.doubled) for _, account in columns])
    row("out of order", [_promise(account.out_of_order) for _, account in columns])
    if outcome.total.unknown:
        row("never stored", [_promise(account.unknown) for _, account in columns])
    if outcome.total.reported_missing:
        row("told missing", [f"{account.reported_missing:,}" for _, account in columns])
    row("latency p50", [_milliseconds(account.latency_ms["p50"]) for _, account in columns])
    row("latency p99", [_milliseconds(account.latency_ms["p99"]) for _, account in columns])
    row("hit ratio", [_ratio(account.hit_ratio) for _, account in columns])
    row("bytes fetched", [f"{account.fetched_bytes:,}" for _, account in columns])
    row("pictures opened", [f"{a.page_hits + a.page_misses:,}" for _, a in columns])
    row("their hit ratio", [_ratio(account.page_hit_ratio) for _, account in columns])
    row("their bytes saved", [f"{account.page_saved_bytes:,}" for _, account in columns])
    return table


def _account(account: Account) -> dict[str, Any]:
    return {
        "delivered": account.delivered,
        "lost": account.lost,
        "doubled": account.doubled,
        "out_of_order": account.out_of_order,
        "never_stored": account.unknown,
        "told_missing": account.reported_missing,
        "latency_ms": account.latency_ms,
        "hit_ratio": account.hit_ratio,
        "fetched_bytes": account.fetched_bytes,
        "pages_opened": account.page_hits + account.page_misses,
        "page_hit_ratio": account.page_hit_ratio,
        "page_saved_bytes": account.page_saved_bytes,
    }


def _promise(count: int) -> str:
    return f"[green]{count}[/green]" if count == 0 else f"[bold red]{count:,}[/bold red]"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
