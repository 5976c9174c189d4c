"""`tocsin lab pages`: traces of page caches under the delivery paper's policies, and made ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.status import Status

from tocsin.cli.output import err, show_table
from tocsin.cli.values import check_target, pairs_from
from tocsin.errors import InvalidInput

SHOWN = (
    "requests", "hits", "hit_ratio", "byte_hit_ratio", "stored", "aborted", "miss_stored",
    "miss_not_stored", "evicted",
)  # fmt: skip


def replay(
    trace: Annotated[
        Path,
        typer.Argument(
            help="CSV or .parquet: operation,page,size,subscriptions,notification",
        ),
    ],
    policy: Annotated[str, typer.Option(help="such as gdstar(2), hug, dc, dc-ta(0.25)")],
    capacity: Annotated[str, typer.Option(help="of the cache: bytes, or such as 50MB")],
    steps: Annotated[
        Path | None, typer.Option(help="write what came of each operation: outcome,evicted")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="the sums as one line of JSON")] = False,
) -> None:
    """Play a trace through a page cache: what was stored, hit, given up, and who left for it."""
    from tocsin.lab.simulators.page_cache.replay import replay_pages, write_steps
    from tocsin.lab.trace.pages import read_page_trace
    from tocsin.policies.page import parse_page_policy

    check_target(steps, "steps")
    chosen = parse_page_policy(policy)
    capacity_bytes = _capacity(capacity)
    with Status(f"reading {trace} …", console=err):
        read = read_page_trace(trace)
        outcome, recorded = replay_pages(read, chosen, capacity_bytes)
    if steps is not None:
        write_steps(recorded, read, chosen, steps)
    row = outcome.row()
    summary = {"policy": chosen.text, "capacity": capacity_bytes, **{k: row[k] for k in SHOWN}}
    if as_json:
        print(json.dumps(summary))
    else:
        show_table(["", chosen.text], [[name.replace("_", " "), row[name]] for name in SHOWN])


def make(
    file: Annotated[Path, typer.Argument(help="the trace to write (.csv or .parquet)")],
    server: Annotated[int, typer.Option(min=0, help="which of the servers, from 0")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="another seed, other pages")] = 1,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of the workload: FIELD=VALUE")
    ] = None,
) -> None:
    """Make the paper's workload, and write what one of its servers sees."""
    from tocsin.lab.spec.settings import converted, divided
    from tocsin.lab.trace.pages import write_page_trace
    from tocsin.lab.workloads.pages.news import NewsSettings, news

    check_target(file, "file")
    if file.exists():
        raise InvalidInput(f"{file} exists already", field="file", hint="name a new file")
    (given,) = divided(pairs_from(set_), (NewsSettings,))
    settings = converted(given, NewsSettings)
    if server >= settings.servers:
        raise InvalidInput(
            f"there is no server {server}", field="server", hint=f"0 to {settings.servers - 1}"
        )
    with Status("making …", console=err):
        operations = news(settings, seed).server(server)
        write_page_trace(operations, file)
    err.print(
        f"{len(operations)} operations, {operations.requests} of them requests for"
        f" {operations.requested_bytes} bytes of pages: {file}",
        soft_wrap=True,
        highlight=False,
    )


def _capacity(text: str) -> int:
    from tocsin.cli.values import bytes_from

    try:
        return bytes_from(text) or 0
    except InvalidInput as error:
        raise InvalidInput(
            f"the capacity is {text!r}", field="capacity", hint=error.hint or "0 or more bytes"
        ) from None
