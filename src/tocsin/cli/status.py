"""What a cluster says of itself: `tocsin status`, and the warnings that `tocsin up` prints."""

from __future__ import annotations

import asyncio

import msgspec
import typer

from tocsin.cli.data import CLUSTER, ClusterUrl, Token
from tocsin.cli.output import show_table
from tocsin.protocol.cluster import ClusterStatus


def register(app: typer.Typer) -> None:
    app.command()(status)


def status(cluster: ClusterUrl = CLUSTER, token: Token = "") -> None:
    """Show whether the cluster works, and what threatens it. Exit code 1: it does not.

    The token is needed where `inner_scope` asks for one.
    """
    said = asyncio.run(cluster_status(cluster, token))
    rows: list[tuple[str, str | None]] = [
        ("ready", "yes" if said.ready else "no"),
        ("store", said.store_id),
        ("waits for", said.waits_for),
        ("trouble", said.trouble),
        *(("warning", warning) for warning in said.warnings),
    ]
    show_table(["what", "says"], [row for row in rows if row[1] is not None])
    if said.trouble is not None or not said.ready:
        raise typer.Exit(1)


async def cluster_status(url: str, token: str, authority: str = "") -> ClusterStatus:
    from tocsin.client.http import error_of
    from tocsin.client.transport import HttpClient

    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with HttpClient(timeout=30.0, authority=authority) as http:
        answer = await http.get(f"{url.rstrip('/')}/v1/status", headers=headers)
    if not answer.is_success:
        raise error_of(answer)
    return msgspec.json.decode(answer.content, type=ClusterStatus)
