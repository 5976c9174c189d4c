"""A system that shares no secret: records and results go their ways, every broker is held to its
own name, keys change under load, and what is revoked ends within seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from broker.public_keys import SOON_S, System, system
from broker.world import take, until
from cluster.sparkless import ROUTED
from tocsin.broker.server import Broker
from tocsin.errors import SettingError, Unauthenticated
from tocsin.intake.dead_letters import DEAD_LETTERS
from tocsin.protocol.client import PATH, UNAUTHENTICATED
from tocsin.protocol.cluster import SUBSCRIBER_TOKEN
from tocsin.protocol.keys import RevocationChange, Revoked
from tocsin.protocol.link import PATH as LINK_PATH
from tocsin.service.keys.credentials import LINK
from tocsin.service.tokens import sign_notice
from tocsin.settings import Settings

BEAT = {"url": "http://127.0.0.1:9", "ws_url": "ws://127.0.0.1:9"}


@pytest.fixture
async def public(tmp_path: Path) -> AsyncIterator[System]:
    async with system(tmp_path) as made:
        yield made


def is_taken(broker: Broker, token: str) -> bool:
    try:
        broker.verifier.verify(token)
    except Unauthenticated:
        return False
    return True


async def revoke(public: System, **what: list[str]) -> None:
    async with public.http(public.cluster.url, public.token("root", "admin")) as http:
        change = RevocationChange(revoke=Revoked(**what))
        answer = await http.post("/v1/revocations", content=msgspec.json.encode(change))
        assert answer.status_code == 200, answer.text


async def test_records_reach_subscribers_of_linked_brokers_without_any_shared_secret(
    public: System,
) -> None:
    for name in ("broker_1", "broker_2"):
        await public.broker(name)
    await public.linked()
    heard = []
    for number, broker in enumerate(public.brokers.values()):
        client = await public.client(f"p{number}")
        async with public.http(broker.url, public.token(f"p{number}")) as here:
            await here.get("/v1/subscriptions")  # it is served there
        heard.append(await client.subscribe_to_dataset(ROUTED.name, "n >= 1"))
    publisher = await public.client("paul")
    await publisher.publish(ROUTED.name, [{"key": "a", "n": n} for n in range(3)])
    for subscription in heard:
        assert [result.value["n"] for result in await take(subscription, 2)] == [1, 2]
    for broker in public.brokers.values():
        assert broker.settings.secret == ""
    assert public.cluster.settings.secret == ""
    assert not list(public.directory.glob("*/secret"))


async def test_a_broker_is_told_by_notices_that_only_it_can_be_told_by(public: System) -> None:
    broker = await public.broker("broker_1", news_poll_s=3600.0)
    other = public.cluster.notice_secrets.of("broker_2")
    body = b'{"sequence": 0}'
    for secret, status in [
        (public.cluster.notice_secrets.of("broker_1"), 200),
        (other, 401),
        ("", 401),
        ("None", 401),
    ]:
        signature = sign_notice(secret, body, time.time())
        async with httpx.AsyncClient() as http:
            answer = await http.post(
                broker.url + "/v1/notices", content=body, headers={"tocsin-signature": signature}
            )
        assert answer.status_code == status
    client = await public.client("ann")
    subscription = await client.subscribe_to_dataset(ROUTED.name)
    async with public.http(public.cluster.url, public.token("root", "admin")) as http:
        ending = f"/v1/subscriptions/{subscription.id}?subscriber=ann"
        admin = public.token("ann")
        http.headers["authorization"] = f"Bearer {admin}"
        assert (await http.delete(ending)).status_code == 200
    await until(lambda: broker.driver.subscriptions == 0)  # by a notice: it asks for no news


async def test_a_broker_whose_notices_have_another_secret_is_given_it(public: System) -> None:
    broker = await public.broker("broker_1", news_poll_s=3600.0)
    link = broker.driver.link
    good = link.notice_secret
    link.notice_secret, link.registered_at = "of an earlier cluster", time.monotonic() - 3600
    client = await public.client("ann")
    await client.subscribe_to_dataset(ROUTED.name)
    public.cluster.notifier.wake()
    await until(lambda: link.notice_secret == good)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/brokers/broker_2", {"url": "http://127.0.0.1:9"}),
        ("GET", "/v1/brokers/broker_2/subscriptions", None),
        ("POST", "/v1/brokers/broker_2/attach", {"subscriber": "ann"}),
        ("GET", "/v1/brokers/broker_2/news?since=0", None),
        ("POST", "/v1/statements", {"sql": "CREATE BROKER broker_2 AT 'http://127.0.0.1:9'"}),
        (
            "POST",
            "/v1/subscriptions",
            {"subscriber": "ann", "broker": "broker_2", "channel": "x", "arguments": {}},
        ),
        ("POST", "/v1/statements", {"sql": "SHOW SUBSCRIPTIONS", "subscriber": "ann"}),
        ("POST", "/v1/revocations", {"revoke": {"subjects": ["broker_2"]}}),
        ("POST", f"/v1/datasets/{ROUTED.name}/records", [{"n": 1}]),
        ("GET", f"/v1/datasets/{DEAD_LETTERS.name}/log?after=0", None),
    ],
)
async def test_a_broker_does_nothing_in_anothers_name(
    public: System, method: str, path: str, body: Any
) -> None:
    broker = await public.broker("broker_1")
    async with public.http(public.cluster.url, broker._credential.token()) as http:
        answer = await http.request(method, path, json=body)
    assert answer.status_code == 403, answer.text


async def test_a_broker_speaks_for_whoever_showed_it_a_token_and_nobody_else(
    public: System,
) -> None:
    brokers = [await public.broker(name) for name in ("broker_1", "broker_2")]
    client = await public.client("ann")
    subscription = await client.subscribe_to_dataset(ROUTED.name, "n >= 1")
    store = public.cluster.store.subscriptions
    home = store.get(subscription.id).broker
    (thief,) = [broker for broker in brokers if broker.name != home]
    asking = {"subscriber": "ann", "channel": f"dataset/{ROUTED.name}", "arguments": {}}
    calls: list[tuple[str, Any]] = [
        ("/v1/statements", {"sql": "SHOW SUBSCRIPTIONS", "subscriber": "ann"}),
        ("/v1/subscriptions", asking | {"broker": thief.name}),
        (f"/v1/brokers/{thief.name}/attach", {"subscriber": "ann"}),
    ]
    async with public.http(public.cluster.url, thief._credential.token()) as http:
        for passed_on, status in [(None, 403), ("bob", 403), ("ann", 200)]:
            headers = {} if passed_on is None else {SUBSCRIBER_TOKEN: public.token(passed_on)}
            for path, body in calls:
                assert store.get(subscription.id).broker == home
                answer = await http.post(path, json=body, headers=headers)
                assert answer.status_code == status, (path, passed_on, answer.text)
        assert store.get(subscription.id).broker == thief.name
        whose = {"sql": "SHOW SUBSCRIPTIONS"}  # of the token's subject, if nobody is named
        answer = await http.post("/v1/statements", json=whose, headers=headers)
        rows = answer.json()["results"][0]["rows"]
        assert {row[0] for row in rows} == {one.id for one in store.of_subscriber("ann")}


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_broker_neither_reports_nor_leaves_for_another(public: System, method: str) -> None:
    broker = await public.broker("broker_1")
    async with public.http(public.coordinator_url, broker._credential.token()) as http:
        for name, status in [("broker_2", 403), ("broker_1", 200)]:
            answer = await http.request(method, f"/v1/brokers/{name}", json=BEAT)
            assert answer.status_code == status, answer.text


async def test_a_broker_reads_and_acknowledges_what_it_serves_alone(public: System) -> None:
    brokers = [await public.broker(name) for name in ("broker_1", "broker_2")]
    client = await public.client("ann")
    subscription = await client.subscribe_to_dataset(ROUTED.name)
    await client.publish(ROUTED.name, [{"key": "a", "n": 1}])
    mine = public.cluster.store.subscriptions.get(subscription.id)
    await take(subscription, 1)
    for broker in brokers:
        serves = broker.name == mine.broker
        async with public.http(public.cluster.url, broker._credential.token()) as http:
            ask = {"backend": mine.backend.id, "after": 0, "upto": 1 << 40, "limit": 10}
            missing = ask | {"backend": 999}
            both = await http.post("/v1/results", json={"ranges": [missing, ask, missing, ask]})
            assert [bool(one.get("gone")) for one in both.json()["ranges"]] == [
                True,
                not serves,
                True,
                not serves,
            ]
            marker = {
                "subscription": mine.id,
                "epoch": mine.backend.epoch,
                "position": 1,
            }
            stored = await http.post("/v1/markers", json={"markers": [marker]})
            assert stored.json()["unknown"] == ([] if serves else [mine.id])
            listed = await http.get("/v1/subscriptions?subscriber=ann")
            assert len(listed.json()["subscriptions"]) == serves
            if not serves:
                ending = await http.delete(f"/v1/subscriptions/{mine.id}?subscriber=ann")
                assert ending.status_code == 404
    assert public.cluster.store.subscriptions.get(mine.id).broker == mine.broker


async def test_a_token_for_a_link_opens_nothing_else(public: System) -> None:
    brokers = [await public.broker(name) for name in ("broker_1", "broker_2")]
    token = brokers[0]._credential.token(LINK + "broker_2")
    for url in (public.cluster.url, public.coordinator_url, brokers[1].url):
        async with public.http(url, token) as http:
            for path in ("/v1/brokers", "/v1/brokers/broker_1/subscriptions", "/v1/cache"):
                assert (await http.get(path)).status_code in (401, 404)
    for broker in brokers:
        with pytest.raises(Unauthenticated):
            broker.verifier.verify(token)
    assert brokers[1].verifier.verify(token, LINK + "broker_2").subject == "broker_1"
    with pytest.raises(Unauthenticated):
        brokers[1].verifier.verify(token, LINK + "broker_3")


async def test_keys_are_exchanged_under_load_without_one_refused_call(public: System) -> None:
    broker = await public.broker("broker_1")
    key, retired = public.users, 0
    answers: list[int] = []
    going = True

    async def call(number: int) -> None:
        while going:
            token = public.token(f"p{number}", key=key)
            urls = (broker.url, public.cluster.url, public.coordinator_url)
            async with public.http(urls[number % 3], token) as http:
                path = ("/v1/cache", "/v1/datasets", "/v1/brokers")[number % 3]
                answers.append((await http.get(path)).status_code)
            wire = await public.socket(broker, token) if number % 3 == 0 else None
            if wire is not None:
                await wire.socket.close()

    callers = [asyncio.create_task(call(number)) for number in range(6)]
    for kid in ("spring", "summer", "autumn"):
        old, key = key, public.new_key(kid)  # at once: it is published, and signs
        seen = len(answers)
        await until(lambda seen=seen: len(answers) >= seen + 24)  # type: ignore[misc]
        public.keys.remove(old.id)
        retired += 1
        await until(lambda old=old: not is_taken(broker, public.token("ann", key=old)))  # type: ignore[misc]
    going = False
    await asyncio.gather(*callers)
    assert set(answers) == {200}
    assert retired == 3


@pytest.mark.parametrize("by", ["subjects", "key_ids", "token_ids", "removal"])
async def test_what_is_revoked_ends_live_connections_within_seconds(
    public: System, by: str
) -> None:
    broker = await public.broker("broker_1")
    other = public.new_key("others")
    stay, go = public.token("bea", key=other), public.token("ann")
    identity = broker.verifier.verify(go)
    wire, staying = await public.socket(broker, go), await public.socket(broker, stay)
    async with (
        public.http(broker.url, go) as http,
        http.stream("GET", "/v1/events") as stream,
        asyncio.timeout(SOON_S),
    ):
        events = stream.aiter_lines()
        assert "welcome" in await anext(events)
        what = {
            "subjects": ["ann"],
            "key_ids": [identity.key_id],
            "token_ids": [identity.claims["jti"]],
        }
        if by == "removal":
            public.keys.remove(identity.key_id)
        else:
            await revoke(public, **{by: what[by]})
        assert await wire.closed() == UNAUTHENTICATED
        text = "\n".join([line async for line in events])
        assert "closing" in text
        assert ("revoked" in text) == (by != "removal")
        for url in (broker.url, public.cluster.url):
            async with public.http(url, go) as again:
                path = "/v1/broker" if url == broker.url else "/v1/datasets"
                assert (await again.get(path)).status_code == 401
    await staying.send(op="ping", ref="p")
    assert (await staying.next())["op"] == "pong"


async def test_a_question_that_waits_gives_nothing_to_whom_is_revoked_meanwhile(
    public: System,
) -> None:
    broker = await public.broker("broker_1")
    client = await public.client("ann", token=public.token("ann", "subscribe"))
    subscription = await client.subscribe_to_dataset(ROUTED.name)
    polling = public.token("ann")
    identity = broker.verifier.verify(polling)
    async with public.http(broker.url, polling) as http:
        path = f"/v1/subscriptions/{subscription.id}/results?wait_s=30"
        waiting = asyncio.create_task(http.get(path))
        await until(lambda: bool(broker.rest.waiting))
        await revoke(public, token_ids=[identity.claims["jti"]])
        await until(lambda: broker.verifier.refusal(identity) is not None)
        publisher = await public.client("paul")
        await publisher.publish(ROUTED.name, [{"key": "a", "n": 1}])
        answer = await waiting
        assert answer.status_code == 401, answer.text
        assert "results" not in answer.json()


async def test_a_link_takes_no_token_in_its_address(public: System) -> None:
    broker = await public.broker("broker_2")
    url = broker.ws_url.replace(PATH, LINK_PATH)
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"{url}?token={public.token('broker_1', 'broker')}")
    assert refused.value.response.status_code == 400


async def test_a_revoked_broker_is_out_and_the_others_go_on(public: System) -> None:
    for name in ("broker_1", "broker_2"):
        await public.broker(name)
    await public.linked()
    one, two = public.brokers["broker_1"], public.brokers["broker_2"]
    await until(lambda: len(public.cluster.routed._streams) == 1)
    (stream,) = public.cluster.routed._streams  # of broker_1, where records enter
    await revoke(public, subjects=["broker_1"])
    await until(lambda: not stream.open)
    async with httpx.AsyncClient() as http:
        health = await http.get(one.url + "/healthz")
        assert (health.status_code, "revoked" in health.text) == (503, True)
        assert (await http.get(two.url + "/healthz")).status_code == 200
    await until(lambda: not two.driver.machine.router.neighbours)
    async with public.http(public.cluster.url, one._credential.token()) as http:
        answer = await http.get("/v1/brokers/broker_1/news?since=0")
        assert answer.status_code == 401
        assert "revoked" in answer.text
    client = await public.client("ann")  # the coordinator has heard as well, from its own file
    async with public.http(two.url, public.token("ann")) as here:
        await here.get("/v1/subscriptions")
    subscription = await client.subscribe_to_dataset(ROUTED.name)
    await client.publish(ROUTED.name, [{"key": "a", "n": 7}])
    assert [result.value["n"] for result in await take(subscription, 1)] == [7]


async def test_what_is_restored_is_taken_again(public: System) -> None:
    await revoke(public, subjects=["ann"], key_ids=["nobody's"])
    ann = public.token("ann")
    async with public.http(public.cluster.url, ann) as http:
        assert (await http.get("/v1/datasets")).status_code == 401
    async with public.http(public.cluster.url, public.token("root", "admin")) as http:
        back = {"restore": {"subjects": ["ann"]}}
        answer = await http.post("/v1/revocations", json=back)
        assert answer.json() == {"key_ids": ["nobody's"]}
    async with public.http(public.cluster.url, ann) as http:
        assert (await http.get("/v1/datasets")).status_code == 200
        assert (await http.get("/v1/revocations")).status_code == 403


async def test_a_broker_may_be_given_a_token_in_a_file_that_somebody_renews(
    public: System,
) -> None:
    file = public.directory / "token"
    first = public.token("broker_1", "broker")
    file.write_text(first + "\n")
    broker = await public.broker("broker_1", broker_key="", broker_token=str(file))
    assert broker._credential.token() == first
    second = public.token("broker_1", "broker")
    file.write_text(second)
    assert broker._credential.token() == second
    assert (await broker.driver.link.news(0)).sequence >= 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({}, "broker_key"),
        ({"broker_key": "nowhere.json"}, "broker_key"),
        ({"broker_key": "jwks.json"}, "broker_key"),
        ({"broker_key": "keys/broker_2.private.json"}, "broker_key"),
        ({"broker_token": "nowhere"}, "broker_token"),
    ],
)
async def test_a_broker_without_a_credential_of_its_own_does_not_start(
    tmp_path: Path, changes: dict[str, str], field: str
) -> None:
    async with system(tmp_path) as public:
        paths = {name: str(tmp_path / path) for name, path in changes.items()}
        with pytest.raises(SettingError) as refusal:
            await public.broker("broker_1", **({"broker_key": ""} | paths))
        assert refusal.value.field == field


def test_a_cluster_needs_no_secret_with_public_keys_and_one_without(tmp_path: Path) -> None:
    from tocsin.service.keys.verifier import TokenVerifier

    System(tmp_path)
    TokenVerifier.of(Settings(data=tmp_path, token_keys=str(tmp_path / "jwks.json")))
    with pytest.raises(SettingError, match="secret"):
        TokenVerifier.of(Settings(data=tmp_path))
