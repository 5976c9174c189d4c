"""Commands for people with data: sql, publish, upload, listen."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import mimetypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec import Struct
from rich.status import Status

from tocsin.beginnings import parse_beginning
from tocsin.cli.commands import command
from tocsin.cli.output import complain, err, out, show_json, show_table
from tocsin.errors import InvalidInput, TocsinError, Unauthenticated
from tocsin.model import FILTERED, Beginning
from tocsin.protocol import numbers

if TYPE_CHECKING:
    from tocsin.client import Client, Gap, Result, StatementResult

Token = Annotated[
    str, typer.Option(envvar="TOCSIN_TOKEN", help="bearer token (tocsin token makes one)")
]
ClusterUrl = Annotated[str, typer.Option(envvar="TOCSIN_CLUSTER_URL", help="the cluster's address")]
CoordinatorUrl = Annotated[
    str, typer.Option(envvar="TOCSIN_COORDINATOR_URL", help="the coordinator's address")
]
CLUSTER = "http://127.0.0.1:7400"
COORDINATOR = "http://127.0.0.1:7410"


def register(app: typer.Typer) -> None:
    app.command()(sql)
    app.command()(publish)
    app.command()(upload)
    app.command()(command(listen))


def sql(
    file: Annotated[Path | None, typer.Argument(help="statements; - or a pipe reads them")] = None,
    execute: Annotated[str | None, typer.Option("--execute", "-e", help="one statement")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="each row as a line of JSON, with its types")
    ] = False,
    cluster: ClusterUrl = CLUSTER,
    token: Token = "",
) -> None:
    """Run statements from a file, from -e, from a pipe, or interactively.

    Rows are a table in a terminal, and tab-separated lines elsewhere: \\N is NULL, and \\t, \\n,
    \\r and \\\\ are a tab, line ends and a backslash within a value.
    """
    if execute is not None:
        text: str | None = execute
    elif file is not None and str(file) != "-":
        text = _read(file)
    elif file is not None or not sys.stdin.isatty():
        text = sys.stdin.read()
    else:
        text = None
    if text is None:
        _interactive(cluster, required(token), as_json)
    else:
        for result in asyncio.run(_execute(cluster, required(token), text)):
            _show(result, as_json)


def required(token: str) -> str:
    if not token:
        raise Unauthenticated(
            "no token", hint="set TOCSIN_TOKEN or give --token; tocsin token makes one"
        )
    return token


async def _execute(cluster: str, token: str, text: str) -> Sequence[StatementResult]:
    from tocsin.client import Client

    async with Client(cluster=cluster, token=token) as client:
        with Status("running …", console=err):
            return await client.sql(text)


def _interactive(cluster: str, token: str, as_json: bool) -> None:
    """A prompt: statements end with a semicolon and may span lines."""
    with contextlib.suppress(ImportError):  # then without history and line editing
        importlib.import_module("readline")
    err.print(f"tocsin at {cluster}: statements end with ;  leave with \\q")
    lines: list[str] = []
    while True:
        try:
            line = input("tocsin> " if not lines else "      … ")
        except EOFError:
            return
        if line.strip() in ("\\q", "quit", "exit") and not lines:
            return
        lines.append(line)
        if not line.rstrip().endswith(";"):
            continue
        text, lines = "\n".join(lines), []
        try:
            for result in asyncio.run(_execute(cluster, token, text)):
                _show(result, as_json)
        except TocsinError as error:
            complain(error)


def _show(result: StatementResult, as_json: bool) -> None:
    if result.columns:
        (show_json if as_json else show_table)(result.columns, result.rows)
    if result.message:
        err.print(result.message, style="dim")


def publish(
    dataset: Annotated[str, typer.Argument(help="the dataset")],
    file: Annotated[Path, typer.Argument(help="JSON, JSON lines, CSV or Parquet, by its ending")],
    cluster: ClusterUrl = CLUSTER,
    token: Token = "",
) -> None:
    """Publish the records of a file; says which lines were refused, and why."""
    if not file.exists():
        raise InvalidInput(f"there is no file {file}", field="file")
    asyncio.run(_publish(dataset, file, cluster, required(token)))


async def _publish(dataset: str, file: Path, cluster: str, token: str) -> None:
    from tocsin.client import Client

    async with Client(cluster=cluster, token=token) as client:
        with Status(f"publishing {file.name} …", console=err):
            published = await client.publish_file(dataset, file)
    for refused in published.errors:
        where = f"line {refused.line}" + (f", field {refused.field}" if refused.field else "")
        err.print(f"{where}: {refused.reason}", style="yellow", soft_wrap=True)
    out.print(f"{published.accepted} accepted, {published.rejected} refused")
    if published.rejected:
        err.print("the refused ones are in the dataset dead_letters", style="dim")
        raise typer.Exit(2 if published.accepted else 1)


def upload(
    files: Annotated[list[Path], typer.Argument(help="a photo, a map, an article, …")],
    cluster: ClusterUrl = CLUSTER,
    token: Token = "",
) -> None:
    """Upload attachments; prints for each what a record's column of type ATTACHMENT takes."""
    for attachment in asyncio.run(_upload(files, cluster, required(token))):
        print(json.dumps(attachment, ensure_ascii=False))


async def _upload(files: list[Path], cluster: str, token: str) -> list[dict[str, Any]]:
    from tocsin.client import Client

    async with Client(cluster=cluster, token=token) as client:
        attachments = []
        for file in files:
            with Status(f"uploading {file.name} …", console=err):
                attachments.append(await client.upload(file))
        return attachments


class Interest(Struct, frozen=True, kw_only=True):
    """What is subscribed to, and from where on."""

    channel: Annotated[str | None, typer.Argument(help="the channel")] = None
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help='NAME=VALUE, as JSON or text; {"any": true} leaves it open'),
    ] = None
    dataset: Annotated[
        str | None, typer.Option(help="records of a routed dataset, instead of a channel")
    ] = None
    where: Annotated[str, typer.Option(help="conditions on the dataset's columns")] = ""
    beginning: Annotated[
        str | None,
        typer.Option("--from", help="if it is new: begin with '10 minutes', or with 'last 100'"),
    ] = None

    def target(self) -> tuple[str, dict[str, Any]]:
        """The channel as brokers call it, and its arguments."""
        if (self.channel is None) == (self.dataset is None):
            raise InvalidInput("listen to a channel or to a --dataset", field="channel")
        if self.dataset is not None:
            return FILTERED + self.dataset, {"where": self.where}
        if self.where:
            raise InvalidInput(
                "a channel takes arguments, not conditions", field="where", hint="NAME=VALUE"
            )
        assert self.channel is not None
        return self.channel, _arguments(self.arguments or [])


def listen(
    interest: Interest,
    coordinator: CoordinatorUrl = COORDINATOR,
    token: Token = "",
    count: Annotated[int | None, typer.Option(min=1, help="stop after so many results")] = None,
    save: Annotated[
        Path | None, typer.Option(help="a directory: results' attachments are saved there")
    ] = None,
) -> None:
    """Subscribe and print each result as a line of JSON, until Ctrl-C."""
    channel, arguments = interest.target()
    begin = None if interest.beginning is None else parse_beginning(interest.beginning)
    if save is not None:
        try:
            save.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot save in {save}: {error.strerror}", field="save") from None
    asyncio.run(_listen(channel, arguments, begin, coordinator, required(token), count, save))


async def _listen(
    channel: str,
    arguments: dict[str, Any],
    beginning: Beginning | None,
    coordinator: str,
    token: str,
    count: int | None,
    save: Path | None,
) -> None:
    from tocsin.client import Client

    async with Client(coordinator, token=token) as client:
        with Status(f"subscribing at {coordinator} …", console=err):
            subscription = await client.subscribe(channel, from_=beginning, **arguments)
        err.print(f"subscribed at {client.broker} (subscription {subscription.id})", style="dim")
        subscription.on_gap(_tell_gap)
        seen = 0
        async with subscription:
            async for result in subscription:
                print(numbers.shown(result.value), flush=True)
                if save is not None:
                    await _save(client, result, save)
                seen += 1
                if count is not None and seen >= count:
                    return
        err.print("the subscription was ended", style="yellow")


def _tell_gap(gap: Gap) -> None:
    if gap.records is not None and gap.records.dataset:
        where = f"records {gap.records.first} to {gap.records.end} of {gap.records.dataset}"
    else:
        where = f"results {gap.first} to {'?' if gap.last is None else gap.last}"
    err.print(f"missing: {where}: {gap.reason}", style="yellow", highlight=False)


async def _save(client: Client, result: Result, directory: Path) -> None:
    """Under their hashes: names are the publisher's, and equal ones may be different files."""
    from tocsin.client.attachments import attached_fields

    for field in attached_fields(result):
        attachment = client.attachment(result, field)
        file = directory / (
            attachment.about.id + (mimetypes.guess_extension(attachment.about.type) or "")
        )
        if not file.exists():
            await attachment.save(file)
        err.print(f"{field}: {file}", style="dim", soft_wrap=True, highlight=False)


def _arguments(pairs: list[str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InvalidInput(f"{pair!r} is not NAME=VALUE", field="arguments")
        try:
            arguments[name] = numbers.decode(text)
        except msgspec.DecodeError:
            arguments[name] = text
    return arguments


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}", field="file") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not UTF-8 text", field="file") from None
