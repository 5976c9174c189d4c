"""Commands about keys of tokens: keys new, add, list, remove, revoke, restore, revoked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec import Struct

from tocsin.cli.commands import command
from tocsin.cli.data import CLUSTER, ClusterUrl, Token, required
from tocsin.cli.output import out, show_table
from tocsin.errors import InvalidInput
from tocsin.protocol.keys import RevocationChange, Revoked

KeySet = Annotated[Path, typer.Argument(help="file with the public keys (JWKS)")]
Kids = Annotated[list[str] | None, typer.Option("--kid", help="every token that a key signed")]
Subjects = Annotated[list[str] | None, typer.Option("--subject", help="every token of a subject")]
Tokens = Annotated[list[str] | None, typer.Option("--token-id", help="one token, by its jti")]
RevokedFile = Annotated[
    Path | None, typer.Option("--file", help="a file of revocations, and not the cluster's")
]

app = typer.Typer(no_args_is_help=True, help="Keys that sign tokens, and what is revoked.")


def register(parent: typer.Typer) -> None:
    parent.add_typer(app, name="keys")


@app.command()
def new(
    out_: Annotated[Path, typer.Option("--out", help="directory for the two files")],
    algorithm: Annotated[str, typer.Option(help="EdDSA or RS256")] = "EdDSA",
    kid: Annotated[str | None, typer.Option(help="its name; else one that follows from it")] = None,
    broker: Annotated[
        str | None, typer.Option(help="a key for this broker: it signs for it alone")
    ] = None,
    gateway: Annotated[
        str | None, typer.Option(help="a key for this gateway: it signs for it alone")
    ] = None,
    writer: Annotated[
        str | None, typer.Option(help="a key for this writer: it signs for it alone")
    ] = None,
) -> None:
    """Make a key: a private file for who signs, and a public one for `keys add`."""
    from tocsin.service.keys.jwk import SigningKey

    given = {"broker": broker, "gateway": gateway, "writer": writer}
    names = {kind: name for kind, name in given.items() if name is not None}
    if len(names) > 1:
        kinds = " and a ".join(names)
        raise InvalidInput(f"a key is of one service, not of a {kinds}", field=[*names][-1])
    name = next(iter(names.values()), None)
    key = SigningKey.new(
        algorithm, kid=name if kid is None else kid, subject=name, scopes=[*names] or None
    )
    private, public = key.write(out_, key.id)
    show_table(["key", "private", "public"], [[key.id, str(private), str(public)]])


@app.command()
def add(
    file: KeySet,
    keys: Annotated[list[Path], typer.Argument(help="public files of keys new")],
) -> None:
    """Take tokens of further keys. Services notice within seconds."""
    from tocsin.service.keys.key_sets import KeySetFile

    for key in keys:
        added = KeySetFile(file).add(_entry(key))
        out.print(f"added {added.id}", highlight=False)


@app.command("list")
def list_(file: KeySet) -> None:
    """Whose tokens are taken: every key, and what it may sign."""
    from tocsin.service.keys.jwk import verification_key
    from tocsin.service.keys.key_sets import KeySetFile

    known = [verification_key(entry) for entry in KeySetFile(file).entries()]
    rows = [
        [
            key.id,
            key.algorithm,
            key.subject or "anybody",
            "any" if key.scopes is None else " ".join(sorted(key.scopes)),
        ]
        for key in known
    ]
    show_table(["key", "algorithm", "signs for", "scopes"], rows)


@app.command()
def remove(
    file: KeySet, kids: Annotated[list[str], typer.Argument(help="keys by their kid")]
) -> None:
    """Take no more tokens of a key. What it let in is closed within seconds."""
    from tocsin.service.keys.key_sets import KeySetFile

    for kid in kids:
        KeySetFile(file).remove(kid)
        out.print(f"removed {kid}", highlight=False)


class Named(Struct, frozen=True, kw_only=True):
    """Whose tokens a command is about."""

    kid: Kids = None
    subject: Subjects = None
    token_id: Tokens = None

    def texts(self) -> Revoked:
        if not (self.kid or self.subject or self.token_id):
            raise InvalidInput(
                "nothing is named", field="kid", hint="give --kid, --subject or --token-id"
            )
        return Revoked(self.kid or [], self.subject or [], self.token_id or [])


class Place(Struct, frozen=True, kw_only=True):
    """Where it is written down what is revoked."""

    cluster: ClusterUrl = CLUSTER
    token: Token = ""
    file: RevokedFile = None


def revoke(named: Named, place: Place) -> None:
    """Take some tokens no longer. The cluster tells its brokers; connections end in seconds."""
    _change(RevocationChange(revoke=named.texts()), place)


def restore(named: Named, place: Place) -> None:
    """Take again what was revoked."""
    _change(RevocationChange(restore=named.texts()), place)


def revoked(place: Place) -> None:
    """List what is revoked."""
    from tocsin.service.keys.revocations import read_revoked

    if place.file is not None:
        _show(read_revoked(place.file))
    else:
        _show(asyncio.run(_call(place, "GET", None)))


for function in (revoke, restore, revoked):
    app.command()(command(function))


def _change(change: RevocationChange, place: Place) -> None:
    from tocsin.service.keys.revocations import changed_by, read_revoked, write_revoked

    if place.file is not None:
        write_revoked(place.file, changed_by(read_revoked(place.file), change))
        _show(read_revoked(place.file))
    else:
        _show(asyncio.run(_call(place, "POST", change)))


async def _call(place: Place, method: str, change: RevocationChange | None) -> Revoked:
    from tocsin.client.http import Http

    http = Http(place.cluster, required(place.token))
    try:
        return await http.call(
            method,
            "/v1/revocations",
            Revoked,
            repeatable=True,
            content=None if change is None else msgspec.json.encode(change),
            headers={"content-type": "application/json"},
        )
    finally:
        await http.close()


def _show(all_: Revoked) -> None:
    kinds = {"key": all_.key_ids, "subject": all_.subjects, "token": all_.token_ids}
    show_table(["what", "name"], [[kind, name] for kind, names in kinds.items() for name in names])


def _entry(file: Path) -> dict[str, Any]:
    try:
        entry = json.loads(file.read_bytes())
    except OSError as error:
        raise InvalidInput(f"cannot read the key {file}: {error.strerror}", field="key") from None
    except (ValueError, RecursionError):
        raise InvalidInput(f"the key {file} is not JSON", field="key") from None
    if not isinstance(entry, dict):
        raise InvalidInput(f"there is no key in {file}", field="key")
    return entry
