"""Nobody reaches another's inbox: by whatever way they ask, at the cluster and at a broker."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.world import Wire, until
from cluster.private import OWNERS, Private, private, token

NAMES = ("me", "ME", "Me", "mE", "ｍｅ", "m\u0435", "_subscriber", "owner", "sub", "me ")
VALUES: tuple[Any, ...] = (
    "alice",
    "ALICE",
    "ａlice",
    {"any": True},
    {"any": 1},
    {"any": {"any": True}},
    ["alice"],
    [{"any": True}],
    {"me": "alice"},
    None,
    "mallory",
)
WHERES = (
    "",
    "owner = 'alice'",
    "OWNER = 'alice'",
    "`owner` = 'alice'",
    "owner IN ('alice', 'mallory')",
    "owner <> 'mallory'",
    "owner LIKE '%'",
    "owner LIKE '%alice'",
    "owner IS NULL",
    "owner >= ''",
    "id > 0",
    "kind = 'a'",
)
FOREIGN_TOKENS = ("", "alice", "a.b.c")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Private]:
    async with private(tmp_path) as made:
        yield made


def _arguments(dice: random.Random) -> Any:
    """Arguments that try to name somebody: by name, by place, nested, open."""
    value = dice.choice(VALUES)
    kind = dice.choice(("a", {"any": True}))
    return dice.choice(
        (
            {dice.choice(NAMES): value, "kind": kind},
            {dice.choice(NAMES): value, "me": "mallory", "kind": kind},
            {dice.choice(NAMES): value, "KIND": kind},
            [value, kind],
            [kind, value],
            [kind],
            [value],
            {"kind": {"any": True, "me": "alice"}},
            {"kind": value},
        )
    )


def _interest(dice: random.Random) -> dict[str, Any]:
    channel = dice.choice(("inbox", "inbox", "mine", "team", "dataset/notes"))
    arguments = _arguments(dice)
    if channel == "dataset/notes":
        where = dice.choice(WHERES)
        arguments = dice.choice(({"where": where}, {"WHERE": where}, [where], {"any": True}, []))
    beginning = dice.choice((None, {"last": 1000}, {"seconds": 3600}))
    return {
        "channel": channel,
        "arguments": arguments,
        **({} if beginning is None else {"from": beginning}),
    }


def _sql_value(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "ANY" if value is not None else "NULL"


def _statement(dice: random.Random) -> str:
    if dice.random() < 0.3:
        where = dice.choice(WHERES)
        ending = dice.choice(("", " FROM LAST 100"))
        return f"SUBSCRIBE TO DATASET notes{' WHERE ' * bool(where)}{where} ON broker_1{ending}"
    name, value = dice.choice(NAMES[:4]), _sql_value(dice.choice(VALUES))
    given = dice.choice(
        (f"{name} => {value}, kind => 'a'", f"{value}, 'a'", f"'a', {value}", "ANY", "kind => ANY")
    )
    ending = dice.choice(("", " FROM LAST 100", " FROM '1 hour'"))
    return f"SUBSCRIBE TO {dice.choice(('inbox', 'mine', 'team'))}({given}) ON broker_1{ending}"


class Attacker:
    """Mallory, who asks for alice's notes in every way there is."""

    def __init__(self, world: Private, dice: random.Random) -> None:
        self._world = world
        self._dice = dice
        self.granted = 0

    async def begin(self) -> None:
        world, mine = self._world, token("mallory", "subscribe", "publish", team="mallory")
        self.cluster = await world.at_cluster(mine)
        self.broker = await world.at_broker(mine)
        self.wire = await world.wire(mine)
        self._frames = asyncio.create_task(self._listen(self.wire))
        self.heard: list[dict[str, Any]] = []

    async def _listen(self, wire: Wire) -> None:
        with contextlib.suppress(TimeoutError, Exception):
            while True:
                frame = await wire.next()
                self.heard += [result["value"] for result in frame.get("results", ())]

    async def ask(self) -> None:
        dice = self._dice
        way = dice.choice(
            (
                self._by_cluster, self._by_broker, self._by_wire, self._by_sql, self._by_recall,
                self._by_filter, self._by_number, self._by_attachment,
            )
        )  # fmt: skip
        await way()

    async def _by_cluster(self) -> None:
        body = _interest(self._dice) | {"broker": "broker_1"}
        if self._dice.random() < 0.3:
            body["subscriber"] = self._dice.choice(("alice", "mallory", None))
        headers = {}
        if self._dice.random() < 0.2:
            headers["tocsin-subscriber-token"] = self._dice.choice(FOREIGN_TOKENS)
        self._look(await self.cluster.post("/v1/subscriptions", json=body, headers=headers))

    async def _by_broker(self) -> None:
        self._look(await self.broker.post("/v1/subscriptions", json=_interest(self._dice)))

    async def _by_wire(self) -> None:
        await self.wire.send(op="subscribe", ref="s", **_interest(self._dice))

    async def _by_sql(self) -> None:
        body = {"sql": _statement(self._dice)}
        if self._dice.random() < 0.2:
            body["subscriber"] = self._dice.choice(("alice", "mallory"))
        answer = await self.cluster.post("/v1/statements", json=body)
        assert answer.status_code < 500, answer.text

    async def _by_recall(self) -> None:
        body = {"dataset": "notes", "where": self._dice.choice(WHERES), "wait_s": 0.05}
        answer = await self.broker.post("/v1/recall", json=body)
        assert answer.status_code < 500, answer.text
        if answer.is_success:
            self.heard += [found["record"] for found in answer.json()["found"]]

    async def _by_filter(self) -> None:
        where = self._dice.choice(WHERES)
        answer = await self.cluster.get("/v1/datasets/notes/filter", params={"where": where})
        assert answer.status_code < 500, answer.text
        if answer.is_success:
            assert "owner = 'mallory'" in answer.json()["where"]

    async def _by_number(self) -> None:
        """Others' subscriptions, by their numbers."""
        number = self._dice.randrange(1, 20)
        for answer in (
            await self.broker.get(f"/v1/subscriptions/{number}/results?after=0&epoch=x"),
            await self.broker.get(f"/v1/subscriptions/{number}/results"),
        ):
            if answer.is_success:
                self.heard += [result["value"] for result in answer.json()["results"]]
        moved = f"CHANGE SUBSCRIPTION {number} AT broker_1"
        await self.cluster.post("/v1/statements", json={"sql": moved})

    async def _by_attachment(self) -> None:
        answer = await self.broker.get("/v1/attachments/" + "0" * 64)
        assert answer.status_code in (403, 404), answer.text

    def _look(self, answer: httpx.Response) -> None:
        assert answer.status_code < 500, answer.text
        if answer.is_success:
            self.granted += 1
            info = answer.json()
            assert info["subscriber"] == "mallory"
            arguments = info["arguments"]
            if info["channel"] == "dataset/notes":
                assert "owner = 'mallory'" in arguments["where"]
            else:
                assert arguments.get("me", arguments.get("_subscriber")) == "mallory"

    async def fetch_all(self) -> None:
        mine = (await self.broker.get("/v1/subscriptions")).json()["subscriptions"]
        for info in mine:
            path = f"/v1/subscriptions/{info['subscription']}/results"
            query = {"after": "0", "epoch": info["epoch"]}
            answer = await self.broker.get(path, params=query)
            assert answer.is_success, answer.text
            self.heard += [result["value"] for result in answer.json()["results"]]


@pytest.mark.parametrize("seed", range(3))
async def test_no_way_of_asking_yields_a_foreign_record(world: Private, seed: int) -> None:
    alice = await world.wire(token("alice", team="alice"))
    for channel, arguments in (
        ("inbox", {"kind": "a"}),
        ("mine", ["a"]),
        ("team", ["a"]),
        ("dataset/notes", {}),
    ):
        await alice.send(op="subscribe", ref=channel, channel=channel, arguments=arguments)
        await alice.until("subscribed")
    await world.publish(1)
    mallory = Attacker(world, random.Random(seed))
    await mallory.begin()
    for number in range(60):
        await mallory.ask()
        if number % 20 == 10:
            await world.publish(number)
    await world.publish(1000)
    await until(lambda: any(record["id"] == 1000 for record in mallory.heard))
    await mallory.fetch_all()
    assert mallory.granted
    assert {record["owner"] for record in mallory.heard} == {"mallory"}
    owners: set[str] = set()
    notes: set[int] = set()
    while len(notes) < 4:  # she hears hers, by all four
        frame = await alice.until("results")
        owners |= {result["value"]["owner"] for result in frame["results"]}
        if any(result["value"]["id"] == 1000 for result in frame["results"]):
            notes.add(frame["backend"])
    assert owners == {"alice"}


async def test_who_acts_for_others_needs_their_token(world: Private) -> None:
    wanted = {"channel": "inbox", "arguments": ["a"], "subscriber": "alice"}
    statement = {"sql": "SUBSCRIBE TO inbox('a') ON broker_1", "subscriber": "alice"}
    alices = token("alice")
    for scopes in (("admin", "subscribe"), ("broker",), ("broker", "admin", "subscribe")):
        agent = await world.at_cluster(token("agent", *scopes))
        for path, body in (("subscriptions", wanted), ("statements", statement)):
            refused = await agent.post(f"/v1/{path}", json=body)
            assert refused.status_code == 403, refused.text
        refused = await agent.get("/v1/datasets/notes/filter")
        if scopes == ("broker",):
            assert "none of theirs" in refused.json()["error"]["message"]
    header = {"tocsin-subscriber-token": alices}
    agent = await world.at_cluster(token("agent", "broker", "subscribe"), **header)
    given = await agent.post("/v1/subscriptions", json=wanted)
    assert given.json()["arguments"] == {"me": "alice", "kind": "a"}
    again = await agent.post("/v1/statements", json=statement)
    assert again.is_success, again.text
    (row,) = again.json()["results"][0]["rows"]
    assert row[0] == given.json()["subscription"]
    other = await agent.post("/v1/subscriptions", json=wanted | {"subscriber": "bob"})
    assert other.status_code == 403


async def test_an_error_names_the_bound_parameter(world: Private) -> None:
    client = await world.at_broker(token("alice"))
    for arguments in ({"me": "bob", "kind": "a"}, {"ME": {"any": True}, "kind": "a"}, ["a", "b"]):
        answer = await client.post(
            "/v1/subscriptions", json={"channel": "inbox", "arguments": arguments}
        )
        assert answer.status_code == 422 or answer.status_code == 400, answer.text
        assert answer.json()["error"]["field"] == "me"
    teamless = {"channel": "team", "arguments": ["a"]}
    answer = await client.post("/v1/subscriptions", json=teamless)
    assert answer.status_code == 403
    assert "'team', which this token lacks" in answer.json()["error"]["message"]


async def _inbox(world: Private, bearer: str) -> dict[str, Any]:
    client = await world.at_broker(bearer)
    body = {"channel": "team", "arguments": ["a"]}
    answer = await client.post("/v1/subscriptions", json=body)
    assert answer.is_success, answer.text
    info: dict[str, Any] = answer.json()
    return info


async def test_a_token_that_says_otherwise_ends_what_was_bound_to_the_old_one(
    world: Private,
) -> None:
    before, after = token("svc", team="alice"), token("svc", team="bob")
    old = await world.wire(before)
    made = await _inbox(world, before)
    await until(lambda: world.broker.driver.machine.serves("svc", made["subscription"]))
    new = await world.wire(after)
    assert new.welcome["subscriptions"] == []
    assert await old.closed() == 4000
    theirs = await world.cluster.subscriptions.of_subscriber("svc")
    assert theirs == []
    again = await _inbox(world, after)
    assert again["arguments"] == {"me": "bob", "kind": "a"}
    await world.publish(7)
    frame = await new.until("results")
    assert [result["value"]["owner"] for result in frame["results"]] == ["bob"]


async def test_each_call_is_looked_at_with_the_token_that_it_shows(world: Private) -> None:
    before, after = token("svc", team="alice"), token("svc", team="bob")
    made = await _inbox(world, before)
    await world.publish(7)
    path = f"/v1/subscriptions/{made['subscription']}/results?wait_s=5"
    old, new = await world.at_broker(before), await world.at_broker(after)
    fetched = (await old.get(path)).json()["results"]
    assert [result["value"]["owner"] for result in fetched] == ["alice"]
    refused = await new.get(path)
    assert refused.status_code == 404, refused.text
    await until(lambda: not world.broker.driver.machine.serves("svc", made["subscription"]))
    assert (await old.get(path)).status_code == 404  # it has ended for good


async def test_a_token_that_says_the_same_resumes(world: Private) -> None:
    made = await _inbox(world, token("svc", team="alice"))
    later = token("svc", "subscribe", "publish", team="alice", jti="another")
    wire = await world.wire(later)
    (there,) = wire.welcome["subscriptions"]
    assert there["subscription"] == made["subscription"]
    assert (await _inbox(world, later))["subscription"] == made["subscription"]


async def test_a_filter_that_is_bound_to_other_claims_ends(world: Private) -> None:
    client = await world.at_broker(token("alice"))
    body = {"channel": "dataset/notes", "arguments": {"where": "id > 1"}}
    made = (await client.post("/v1/subscriptions", json=body)).json()
    assert made["arguments"] == {"where": "id >= 2 AND owner = 'alice'"}
    dataset = world.cluster.store.catalog.dataset("notes")
    fits = world.cluster.routing.fits
    assert fits(dataset, made["arguments"]["where"], {"sub": "alice"})
    assert not fits(dataset, made["arguments"]["where"], {"sub": "bob"})
    assert not fits(dataset, "id >= 2", {"sub": "alice"})


async def test_a_broker_that_passes_no_token_on_gets_no_private_subscriptions(
    world: Private,
) -> None:
    await _inbox(world, token("svc", team="alice"))
    broker = await world.at_cluster(token("broker_1", "broker"))
    refused = await broker.post("/v1/brokers/broker_1/attach", json={"subscriber": "svc"})
    assert refused.status_code == 403
    assert "whose token was not passed on" in refused.json()["error"]["message"]
    plain = await broker.post("/v1/brokers/broker_1/attach", json={"subscriber": "nobody"})
    assert plain.is_success


async def test_descriptions_say_what_is_bound(world: Private) -> None:
    client = await world.at_cluster(token("root", "admin"))
    channels = (await client.get("/v1/channels")).json()["channels"]
    by_name = {channel["name"]: channel["parameters"] for channel in channels}
    assert by_name["inbox"] == [
        {"name": "me", "type": "STRING", "claim": "sub"},
        {"name": "kind", "type": "STRING"},
    ]
    shown = await client.post("/v1/statements", json={"sql": "SHOW CHANNELS; DESCRIBE notes"})
    channels, notes = shown.json()["results"]
    described = {row[0]: row[2] for row in channels["rows"]}
    assert described["inbox"] == "me STRING BOUND TO CLAIM 'sub', kind STRING"
    assert described["mine"] == "kind STRING"
    assert ["bound", "owner TO CLAIM 'sub'"] in notes["rows"]
    assert OWNERS
