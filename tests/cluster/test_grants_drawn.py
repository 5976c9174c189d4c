"""Whatever roles, grants, revocations, tokens and actions are drawn, in whatever order and by
whatever way: the cluster allows what a plain reading of the rules allows, and nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.sparkless import ROUTED, ContractDriver, SparklessCluster, sparkless
from cluster.test_grants import ALERTS, REPORTS, called, sql, token, who
from contracts.cluster_contract import Probe, probe
from tocsin.cluster.subscriptions import Wanted
from tocsin.errors import TocsinError
from tocsin.model import Privilege
from tocsin.service.tokens import Identity
from tocsin.storage.store.grants import Credentials

ROLES = ("nurses", "doctors", "cooks")
CHANNELS = ("alerts", "others")
DATASETS = ("contract_routed", "reports")
SUBJECTS = ("ann", "bob", "carol")
SCOPES = ("subscribe", "publish", "admin")
ON: dict[Privilege, tuple[str, ...]] = {
    "subscribe": CHANNELS,
    "publish": DATASETS,
    "read": DATASETS,
}
STEPS = 80
REFUSED = (403, 404)


@dataclass
class Rules:
    """The rules as the docs say them."""

    roles: dict[str, bool] = field(default_factory=dict)  # whether something was ever granted to it
    grants: set[tuple[str, str, str]] = field(default_factory=set)  # role, privilege, name
    shown: dict[tuple[str, str], Identity] = field(default_factory=dict)  # subscriber, name

    def may(self, identity: Identity, privilege: str, name: str) -> bool:
        if not any(self.roles.values()) or "admin" in identity.scopes:
            return True
        return any((role, privilege, name) in self.grants for role in identity.roles)

    def sees(self, identity: Identity, kind: str, name: str) -> bool:
        privileges = ("subscribe",) if kind == "channel" else ("publish", "read")
        return any(self.may(identity, privilege, name) for privilege in privileges)

    def may_subscribe(self, identity: Identity, name: str) -> bool:
        return self.may(identity, "subscribe" if name in CHANNELS else "read", name)

    def end(self, taken: set[tuple[str, str, str]]) -> None:
        """Whoever subscribed to what was taken back, and may not by what they showed last."""
        names = {name for _, privilege, name in taken if privilege != "publish"}
        for (subscriber, name), identity in list(self.shown.items()):
            if name in names and not self.may_subscribe(identity, name):
                del self.shown[subscriber, name]


def privilege_and_name(draw: Random) -> tuple[str, str, str]:
    """A privilege, the kind of thing that it is on, and a name."""
    privilege, names = draw.choice(list(ON.items()))
    return privilege, "CHANNEL" if privilege == "subscribe" else "DATASET", draw.choice(names)


class Trial:
    def __init__(self, cluster: SparklessCluster, broker: Probe, draw: Random) -> None:
        self.cluster = cluster
        self.broker = broker
        self.draw = draw
        self.rules = Rules()

    def caller(self) -> Identity:
        draw = self.draw
        scopes = draw.sample(SCOPES, draw.choice((1, 1, 2)))
        return who(draw.choice(SUBJECTS), *draw.sample(ROLES, draw.randint(0, 2)), scopes=scopes)

    # -- what admins do

    async def create_role(self) -> None:
        role = self.draw.choice(ROLES)
        await sql(self.cluster, f"CREATE ROLE IF NOT EXISTS {role}")
        self.rules.roles.setdefault(role, False)

    async def drop_role(self) -> None:
        role = self.draw.choice(ROLES)
        await sql(self.cluster, f"DROP ROLE IF EXISTS {role}")
        taken = {grant for grant in self.rules.grants if grant[0] == role}
        self.rules.roles.pop(role, None)
        self.rules.grants -= taken
        self.rules.end(taken)

    async def grant(self) -> None:
        role, (privilege, kind, name) = self.draw.choice(ROLES), privilege_and_name(self.draw)
        if role in self.rules.roles:
            await sql(self.cluster, f"GRANT {privilege} ON {kind} {name} TO {role}")
            self.rules.roles[role] = True
            self.rules.grants.add((role, privilege, name))

    async def revoke(self) -> None:
        role, (privilege, kind, name) = self.draw.choice(ROLES), privilege_and_name(self.draw)
        if self.rules.grants and self.draw.random() < 0.8:
            role, privilege, name = self.draw.choice(sorted(self.rules.grants))
            kind = "CHANNEL" if privilege == "subscribe" else "DATASET"
        if role in self.rules.roles:
            await sql(self.cluster, f"REVOKE {privilege} ON {kind} {name} FROM {role}")
            taken = {(role, privilege, name)} & self.rules.grants
            self.rules.grants -= taken
            self.rules.end(taken)

    async def drop_a_channel(self) -> None:
        granted = sorted({name for _, _, name in self.rules.grants} & set(CHANNELS))
        name = self.draw.choice(granted or CHANNELS)
        for made in self.cluster.store.subscriptions.all_():
            if made.backend.channel == name:
                await sql(self.cluster, f"UNSUBSCRIBE {made.id}")
                del self.rules.shown[made.subscriber, name]
        await sql(self.cluster, f"DROP CHANNEL {name}")
        self.rules.grants = {grant for grant in self.rules.grants if grant[2] != name}
        self.cluster.store.catalog.create_channel(replace(ALERTS, name=name))

    # -- what others try

    async def subscribe(self) -> None:
        identity, name = self.caller(), self.draw.choice(CHANNELS + DATASETS[:1])
        ways = self._by_statement, self._by_rest, self._by_broker, self._by_service
        way = self.draw.choice(ways)
        allowed = await way(identity, name) and self.rules.may_subscribe(identity, name)
        if allowed:
            self.rules.shown[identity.subject, name] = identity

    async def _by_statement(self, identity: Identity, name: str) -> bool:
        of_channel = name in CHANNELS
        text = f"SUBSCRIBE TO {name}(1)" if of_channel else f"SUBSCRIBE TO DATASET {name}"
        scoped = bool(identity.scopes & {"subscribe", "admin"})
        expected = scoped and self.rules.may_subscribe(identity, name)
        await self._statement(f"{text} ON {self.broker.name}", identity, expected)
        return scoped

    def _interest(self, name: str) -> dict[str, Any]:
        of_channel = name in CHANNELS
        channel = name if of_channel else f"dataset/{name}"
        arguments = {"n": 1} if of_channel else {"where": ""}
        return {"channel": channel, "arguments": arguments, "broker": self.broker.name}

    async def _by_rest(self, identity: Identity, name: str) -> bool:
        scoped = "subscribe" in identity.scopes
        expected = scoped and self.rules.may_subscribe(identity, name)
        body = self._interest(name)
        await self._call(identity, expected, "POST", "/v1/subscriptions", body)
        return scoped

    async def _by_service(self, identity: Identity, name: str) -> bool:
        """Below all routes, where nobody looks at scopes."""
        wanted = Wanted(identity.subject, *self._interest(name).values())
        status = 200
        try:
            await self.cluster.subscriptions.subscribe(wanted, identity)
        except TocsinError as error:
            status = error.status
        assert (status == 200) == self.rules.may_subscribe(identity, name), (identity, name)
        return True

    async def _by_broker(self, identity: Identity, name: str) -> bool:
        scoped = bool(identity.scopes & {"subscribe", "admin"})
        expected = scoped and self.rules.may_subscribe(identity, name)
        body = {**self._interest(name), "subscriber": identity.subject}
        await self._through_broker(identity, expected, "POST", "/v1/subscriptions", body)
        return scoped

    async def attach(self) -> None:
        identity = self.caller()
        scoped = bool(identity.scopes & {"subscribe", "admin"})
        body = {"subscriber": identity.subject}
        path = f"/v1/brokers/{self.broker.name}/attach"
        answer = await self._through_broker(identity, scoped, "POST", path, body)
        if not scoped:
            return
        allowed = {
            name
            for subscriber, name in self.rules.shown
            if subscriber == identity.subject and self.rules.may_subscribe(identity, name)
        }
        served = [made["channel"].removeprefix("dataset/") for made in answer["subscriptions"]]
        assert sorted(served) == sorted(allowed)
        self.rules.shown |= {(identity.subject, name): identity for name in allowed}

    async def publish(self) -> None:
        identity, name = self.caller(), self.draw.choice((*DATASETS, "dead_letters"))
        expected = (
            name != "dead_letters"
            and "publish" in identity.scopes
            and self.rules.may(identity, "publish", name)
        )
        if self.draw.random() < 0.5:
            column = "reason" if name == "dead_letters" else "n"
            text = f"INSERT INTO {name} ({column}) VALUES (1)"  # noqa: S608 (names of ours)
            await self._statement(text, identity, expected)
        else:
            path = f"/v1/datasets/{name}/records"
            await self._call(identity, expected, "POST", path, {"n": 1})

    async def read(self) -> None:
        identity = self.caller()
        path = "/v1/datasets/contract_routed/filter?where=n>1"
        if self.draw.random() < 0.5:
            expected = "subscribe" in identity.scopes
            expected = expected and self.rules.may(identity, "read", "contract_routed")
            await self._call(identity, expected, "GET", path)
        else:
            expected = bool(identity.scopes & {"subscribe", "admin"})
            expected = expected and self.rules.may(identity, "read", "contract_routed")
            await self._through_broker(identity, expected, "GET", path)

    async def look(self) -> None:
        identity = self.caller()
        for kind, names in (("channel", CHANNELS), ("dataset", (*DATASETS, "dead_letters"))):
            seen = {name for name in names if self.rules.sees(identity, kind, name)}
            shown = await sql(self.cluster, f"SHOW {kind}s", identity)
            assert {row[0] for row in shown.rows} == seen
            name = self.draw.choice(names)
            await self._call(identity, name in seen, "GET", f"/v1/{kind}s/{name}")

    # -- how they try it

    async def _statement(self, text: str, identity: Identity, expected: bool) -> None:
        status = 200
        try:
            await sql(self.cluster, text, identity)
        except TocsinError as error:
            status = error.status
        assert status == 200 if expected else status in REFUSED, (text, identity, status)

    async def _call(
        self, identity: Identity, expected: bool, method: str, path: str, body: Any = None
    ) -> None:
        answer = await called(self.cluster, identity, method, path, body)
        if expected:
            assert answer.status_code == 200, (path, identity, answer.text)
        else:
            assert answer.status_code in REFUSED, (path, identity, answer.text)

    async def _through_broker(
        self, identity: Identity, expected: bool, method: str, path: str, body: Any = None
    ) -> Any:
        headers = {"tocsin-subscriber-token": token(identity)}
        answer = await self.broker._http.request(method, path, json=body, headers=headers)
        if expected:
            assert answer.status_code == 200, (path, identity, answer.text)
        else:
            assert answer.status_code in REFUSED, (path, identity, answer.text)
        return answer.json()

    def check(self) -> None:
        """What the store holds is what the rules hold."""
        subscriptions = {
            (made.subscriber, made.backend.channel.removeprefix("dataset/"))
            for made in self.cluster.store.subscriptions.all_()
        }
        assert subscriptions == set(self.rules.shown)
        grants = {(one.role, one.privilege, one.name) for one in self.cluster.store.grants.all_()}
        assert grants == self.rules.grants
        rights, decided = self.cluster.store.grants.rights, any(self.rules.roles.values())
        for role, (privilege, names) in product(ROLES, ON.items()):
            for name in names:
                allowed = rights.allow(Credentials.of([role], admin=False), privilege, name)
                assert allowed == (not decided or (role, privilege, name) in grants)


@pytest.mark.parametrize("seed", range(8))
async def test_the_cluster_allows_what_the_rules_allow(tmp_path: Path, seed: int) -> None:
    draw = Random(seed)
    async with sparkless(tmp_path) as cluster:
        for dataset in (ROUTED, REPORTS):
            await cluster.create_dataset(dataset)
        for name in CHANNELS:
            cluster.store.catalog.create_channel(replace(ALERTS, name=name))
        async with probe(ContractDriver(cluster, stored=False)) as broker:
            trial = Trial(cluster, broker, draw)
            ruling: list[Callable[[], Awaitable[None]]] = [
                *(trial.create_role, trial.grant, trial.grant, trial.grant, trial.revoke),
                *(trial.drop_role, trial.drop_a_channel),
            ]
            trying = [trial.subscribe, trial.subscribe, trial.attach, trial.publish, trial.read]
            trying.append(trial.look)
            for _ in range(STEPS):
                await draw.choice(ruling if draw.random() < 0.35 else trying)()
                trial.check()
