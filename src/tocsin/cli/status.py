"""What clusters say of themselves: `tocsin status`, and the warnings that `tocsin up` prints."""

from __future__ import annotations

import asyncio

import msgspec
import typer

from tocsin.cli.data import CLUSTER, ClusterUrl, Token
from tocsin.cli.output import show_table
from tocsin.errors import TocsinError
from tocsin.protocol.cluster import ClusterStatus


def register(app: typer.Typer) -> None:
    app.command()(status)


def status(cluster: ClusterUrl = CLUSTER, token: Token = "") -> None:
    """Show whether the cluster works, and what threatens it. Exit code 1: it does not; of several,
    none leads.

    The token is needed where `inner_scope` asks for one.
    """
    import httpx

    from tocsin.client.addresses import Addresses

    addresses = Addresses(cluster, "cluster")
    if not addresses.several:
        said = asyncio.run(cluster_status(addresses.current, token))
        show_table(["what", "says"], [[what, says] for what, says in _rows(said)])
        stands_by = said.role == "standby" and said.waits_for is None
        if said.trouble is not None or not (said.ready or stands_by):
            raise typer.Exit(1)
        return
    rows, works = [], False
    for address in addresses.all:
        try:
            said = asyncio.run(cluster_status(address, token))
        except (httpx.HTTPError, TocsinError) as error:
            rows.append([address, "no answer", str(error) or type(error).__name__])
            continue
        works = works or (said.ready and said.trouble is None)
        rows += [[address, what, says] for what, says in _rows(said)]
    show_table(["at", "what", "says"], rows)
    if not works:
        raise typer.Exit(1)


def _rows(said: ClusterStatus) -> list[tuple[str, str]]:
    silent_s = said.leader_silent_s
    rows: list[tuple[str, str | None]] = [
        ("role", said.role),
        ("ready", "yes" if said.ready else "no"),
        ("leader", said.leader),
        ("it is silent for", None if silent_s is None else f"{silent_s:.1f} s"),
        ("store", said.store_id),
        ("waits for", said.waits_for),
        ("trouble", said.trouble),
        *(("warning", warning) for warning in said.warnings),
    ]
    return [(what, says) for what, says in rows if says is not None]


async def cluster_status(url: str, token: str, authority: str = "") -> ClusterStatus:
    from tocsin.client.http import error_of
    from tocsin.client.transport import HttpClient

    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with HttpClient(timeout=30.0, authority=authority) as http:
        answer = await http.get(f"{url.rstrip('/')}/v1/status", headers=headers)
    if not answer.is_success:
        raise error_of(answer)
    return msgspec.json.decode(answer.content, type=ClusterStatus)
