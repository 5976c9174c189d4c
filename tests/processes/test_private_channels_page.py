"""The page about private channels: its statements, its refusals, and who hears what, with Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tocsin.client import Client, Result, Subscription
from tocsin.errors import TocsinError
from tocsin.system import System

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "private-channels.md").read_text()
BLOCKS = re.findall(r"^```(\w+[ \w]*)\n(.*?)^```$", PAGE, re.M | re.S)
REFUSALS = re.findall(r"^\| `(SUBSCRIBE .+?)` \| `(.+)` \|$", PAGE, re.M)

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]


def own(text: str) -> str:
    """The system is shared with other tests: names of our own."""
    return re.sub(r"\b(notes|inbox|urgent|messages)\b", r"private_\1", text)


async def _first(subscription: Subscription) -> Result:
    return await anext(subscription)


async def test_the_page_does_what_it_says(live: System) -> None:
    (declared,) = [body for kind, body in BLOCKS if kind == "sql"]
    (asked,) = [body for kind, body in BLOCKS if kind == "text alice"]
    admin = Client(cluster=live.cluster_url, token=live.token("root", "admin", "publish"))
    people = {
        name: Client(
            live.coordinator_url, cluster=live.cluster_url, token=live.token(name, "subscribe")
        )
        for name in ("alice", "bob")
    }
    async with admin, people["alice"] as alice, people["bob"] as bob:
        await admin.sql(own(declared))
        made = await alice.sql(own(asked))
        arguments = [result.rows[0][result.columns.index("arguments")] for result in made]
        assert arguments == [
            {"me": "alice", "kind": "bill"},
            {"me": "alice", "kind": {"any": True}},
            {"kind": "bill", "_subscriber": "alice"},
            {"where": "owner = 'alice' AND text LIKE 'Dear%'"},
        ]
        assert len(REFUSALS) == 5
        for statement, reason in REFUSALS:
            with pytest.raises(TocsinError) as refused:
                await alice.sql(own(statement))
            assert own(reason) in str(refused.value)
        streams = {
            (name, kind): stream
            for name, client in people.items()
            for kind, stream in (
                ("bill", await client.subscribe("private_inbox", "bill")),
                ("any", await client.subscribe("private_inbox", kind={"any": True})),
                ("urgent", await client.subscribe("private_urgent", "bill")),
                ("routed", await client.subscribe_to_dataset("private_messages")),
            )
        }
        for name in ("carol", "bob", "alice"):
            note = {"id": name, "owner": name, "kind": "bill", "text": "Dear"}
            await admin.publish("private_notes", note)
            await admin.publish("private_messages", {k: note[k] for k in ("id", "owner", "text")})
        for (name, _), stream in streams.items():
            result = await _first(stream)
            assert (result.value["id"], result.value["owner"]) == (name, name)
        (described,) = await bob.sql("DESCRIBE CHANNEL private_inbox")
        told = dict(described.rows)
        assert told["parameters"] == "me STRING BOUND TO CLAIM 'sub', kind STRING"
        assert told["bound"] == "me: the claim 'sub' of the subscriber's token"
        assert (told["may be open"], told["matching"]) == ("kind", "hash join")
        for kind in ("inbox", "urgent"):
            await admin.sql(f"SELECT current_subscriber() AS me; DESCRIBE private_{kind}")
