"""Traces on the command line: record a live broker, replay, convert, show."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.status import Status

from tocsin.cli.data import Token, required
from tocsin.cli.output import err, out, show_table
from tocsin.cli.progress import Watch
from tocsin.cli.values import listed, sizes_from
from tocsin.errors import InvalidInput, field_named

if TYPE_CHECKING:
    from tocsin.lab.trace import EventTrace, RequestTrace
    from tocsin.lab.workloads.network import Network

BROKER = "http://127.0.0.1:7420"
TraceFile = Annotated[Path, typer.Argument(help="a trace: ours (.parquet) or an oracleGeneral one")]


def record(
    output: Annotated[Path, typer.Option("--out", help="the file to write (.parquet)")],
    broker: Annotated[
        str, typer.Option(envvar="TOCSIN_BROKER_URL", help="the broker's address")
    ] = BROKER,
    token: Token = "",
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="for how long; else until Ctrl-C")
    ] = None,
) -> None:
    """Record a live broker: who comes and goes, what is published, got and opened; no names."""
    if output.exists():
        raise InvalidInput(f"{output} exists already", field="out", hint="name a new file")
    asyncio.run(_record(broker, required(token), output, seconds))


async def _record(broker: str, token: str, output: Path, seconds: float | None) -> None:
    from tocsin.lab.trace.recording import record as record_trace
    from tocsin.service.serving import until_stopped

    stop = asyncio.Event()
    stopped = asyncio.create_task(until_stopped())
    stopped.add_done_callback(lambda _: stop.set())
    with Status(f"recording {broker} …", console=err) as status:

        def announce(events: int, at_s: float) -> None:
            status.update(f"recording {broker}: {events} events in {at_s:.0f} s; end with Ctrl-C")

        done = await record_trace(
            broker, token, output, seconds=seconds, stop=stop, progress=announce
        )
    stopped.cancel()
    out.print(f"{done.events} events in {done.duration_s:.1f} s: {output}", soft_wrap=True)
    if done.lost:
        err.print(f"{done.lost} more came too fast and are missing", style="yellow")
    if done.ended != "stopped":
        err.print(done.ended, style="dim", highlight=False)


def replay(
    file: TraceFile,
    policy: Annotated[
        list[str] | None, typer.Option(help="cache policies; none given: all")
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(help="cache sizes, such as 10MB,50MB; none given: the broker's own"),
    ] = None,
    network: Annotated[
        list[str] | None,
        typer.Option(help="what distance costs: cluster_rtt_s=0.1, cluster_bytes_per_s=1e7, …"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--out", help="directory for the table (replay.parquet)")
    ] = None,
) -> None:
    """Play a trace under each policy and size, beside what the broker itself measured."""
    from tocsin.lab.simulators.replay import write_rows
    from tocsin.lab.trace import EventTrace, read_trace
    from tocsin.policies import parse_policy

    costs = _network(network or [])
    sizes = sizes_from(size) or []
    policies = [parse_policy(text) for text in listed(policy) or []]
    with Status(f"reading {file} …", console=err):
        trace = read_trace(file)
    rows = _played(trace, policies or _all_policies(trace), sizes or [_own_size(trace)], costs)
    _show_rows(rows, ON_EVENTS if isinstance(trace, EventTrace) else ON_REQUESTS)
    if isinstance(trace, EventTrace):
        _tell_live(trace)
    if output is not None:
        err.print(f"the whole table: {write_rows(rows, output)}", soft_wrap=True, highlight=False)


def _played(
    trace: EventTrace | RequestTrace, policies: list[Any], sizes: list[int], costs: Network
) -> list[dict[str, Any]]:
    from tocsin.lab.simulators.replay import replay as play

    rows = []
    with Watch(err) as watch:
        watch.begin("replaying", len(policies) * len(sizes))
        for row in play(trace, policies, sizes, costs):
            rows.append(row)
            watch.advance(1)
    return rows


ON_EVENTS = ("hit_ratio", "hits", "misses", "miss_bytes", "latency_mean_s", "latency_p99_s")
ON_REQUESTS = ("hit_ratio", "byte_hit_ratio", "hits", "misses", "miss_bytes", "evicted")


def _show_rows(rows: list[dict[str, Any]], measures: tuple[str, ...]) -> None:
    show_table(
        ["policy", "size", *(name.replace("_", " ") for name in measures)],
        [
            [row["policy"], in_words(row["size_bytes"]), *(_figure(row[name]) for name in measures)]
            for row in rows
        ],
    )


def _tell_live(trace: EventTrace) -> None:
    live = trace.live()
    about = trace.about
    had = f" ({about.policy}, {in_words(about.budget_bytes or 0)})" if about.policy else ""
    out.print(
        f"the live broker{had}: hit ratio {live.hit_ratio:.4f}; {live.hits} hits and"
        f" {live.misses} misses in {live.gets} gets, {live.sent} results sent at their arrival",
        soft_wrap=True,
        highlight=False,
    )
    opened, there = trace.opened()
    if opened:
        out.print(
            f"its page cache: hit ratio {there / opened:.4f}; {opened} pages opened (tocsin lab"
            " pages replay plays them under another policy)",
            soft_wrap=True,
            highlight=False,
        )
    _tell_missing(trace)


def _tell_missing(trace: EventTrace) -> None:
    missing = []
    if trace.lost:
        missing.append(f"the recording lacks {trace.lost} events")
    if not trace.about.finished:
        missing.append(
            f"the recording was not finished: what came after {trace.duration_s:.1f} s is missing"
        )
    for text in missing:
        err.print(text, style="yellow", highlight=False, soft_wrap=True)


def convert(
    source: Annotated[Path, typer.Argument(help="a trace")],
    target: Annotated[Path, typer.Argument(help="the file to write; its ending says the format")],
) -> None:
    """Turn our traces into oracleGeneral ones (.oracleGeneral, .bin; .zst packs), and back."""
    from tocsin.lab.trace import EventTrace, read_trace
    from tocsin.lab.trace.oracle_general import is_oracle_general, write_oracle_general
    from tocsin.lab.trace.requests import deliveries
    from tocsin.lab.trace.writing import write_requests

    if target.exists():
        raise InvalidInput(f"{target} exists already", field="target", hint="name a new file")
    if not is_oracle_general(target) and target.suffix != ".parquet":
        raise InvalidInput(
            f"{target} does not tell its format",
            field="target",
            hint="end its name in .parquet, .oracleGeneral or .oracleGeneral.zst",
        )
    with Status(f"converting {source} …", console=err):
        trace = read_trace(source)
        requests = deliveries(trace) if isinstance(trace, EventTrace) else trace
        write = write_oracle_general if is_oracle_general(target) else write_requests
        write(requests, target)
    out.print(f"{len(requests)} requests: {target}", soft_wrap=True)
    if isinstance(trace, EventTrace):
        _tell_missing(trace)


def show(file: TraceFile) -> None:
    """Say what is in a trace."""
    from tocsin.lab.trace import EventTrace, read_trace

    with Status(f"reading {file} …", console=err):
        trace = read_trace(file)
    if isinstance(trace, EventTrace):
        rows: list[list[Any]] = [["seconds", f"{trace.duration_s:.1f}"]]
        rows += [[f"{name} events", count] for name, count in trace.counts().items() if count]
        show_table(["trace of events", ""], rows)
        _tell_live(trace)
    else:
        show_table(
            ["trace of requests", ""],
            [
                ["seconds", f"{float(trace.at_s[-1] - trace.at_s[0]):.1f}"],
                ["requests", len(trace)],
                ["objects", trace.objects],
                ["bytes asked for", in_words(int(trace.size_bytes.sum()))],
            ],
        )


def _all_policies(trace: EventTrace | RequestTrace) -> list[Any]:
    from tocsin.errors import SettingError
    from tocsin.lab.simulators.plain_cache.simulator import score_of
    from tocsin.lab.trace import EventTrace
    from tocsin.policies import parse_policy, policy_names

    policies = []
    for policy in map(parse_policy, policy_names()):
        try:
            if not isinstance(trace, EventTrace):
                score_of(policy)
        except SettingError:
            continue  # it needs subscribers
        policies.append(policy)
    return policies


def _own_size(trace: EventTrace | RequestTrace) -> int:
    from tocsin.lab.trace import EventTrace

    if isinstance(trace, EventTrace) and trace.about.budget_bytes is not None:
        return trace.about.budget_bytes
    raise InvalidInput("no cache size was given", field="size", hint="such as --size 10MB")


def _network(pairs: list[str]) -> Network:
    from tocsin.lab.workloads.network import Network

    given = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InvalidInput(
                f"--network {pair!r} is not NAME=NUMBER",
                field="network",
                hint=f"one of {', '.join(Network.__struct_fields__)}",
            )
        given[name.strip()] = text.strip()
    unknown = sorted(set(given) - set(Network.__struct_fields__))
    if unknown:
        raise InvalidInput(
            f"a network has no {unknown[0]}",
            field="network",
            hint=f"one of {', '.join(Network.__struct_fields__)}",
        )
    try:
        return msgspec.convert(given, Network, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"--network: {error}", field=field_named(error)) from None


def in_words(size_bytes: int) -> str:
    """1500000 → 1.5 MB."""
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if size_bytes >= 1000**power:
            return f"{size_bytes / 1000**power:.4g} {unit}"
    return f"{size_bytes} B"


def _figure(value: float) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
