"""One chaos run: a system under load, faults as planned, and the judgement of its whole history."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import httpx
import msgspec
from msgspec import Struct

from tocsin.client import Client
from tocsin.client.transport import HttpClient
from tocsin.dev.server import Server
from tocsin.errors import TocsinError
from tocsin.protocol.cluster import ClusterStatus
from tocsin.protocol.publishing import StatementResult
from tocsin.settings import Settings
from tocsin.system import System
from tocsin.system.system import ServiceEnvironment
from tocsin.testing.chaos import clocks, faults, history, people
from tocsin.testing.chaos.faults import Fault
from tocsin.testing.chaos.history import Figures, Person, Publication
from tocsin.testing.chaos.lines import Lines, to_store
from tocsin.testing.chaos.plan import Planned, draw
from tocsin.testing.chaos.proxy import Mode

MODES: tuple[Mode, ...] = ("cut", "stalled", "mute")
PUBLISHERS = 4
OF_EACH_KIND = 2
QUIET_LIMIT_S = 180.0
HEALTH_LIMIT_S = 90.0
LOOK_S = 0.2


class Course(Struct, frozen=True, kw_only=True):
    """What is played."""

    seconds: float = 60.0
    seed: int = 1
    brokers: int = 2
    standbys: int = 0  # beside the cluster that leads
    gateways: int = 0  # of which publishers use all


class Place(Struct, frozen=True, kw_only=True):
    """What a run may use of this machine."""

    servers: Sequence[Server] = ()
    disk: Path | None = None  # a file system that may be filled; the data lies there
    clocks: Path | None = None  # the library that lets clocks be set; their files lie beside it


class Show(Protocol):
    """Who hears how far a run is."""

    def happened(self, at_s: float, what: str) -> None: ...

    def phase(self, what: str) -> None: ...


class Outcome(Struct, frozen=True):
    figures: Figures
    faults: dict[str, int]  # how often each was done
    restarts: dict[str, int]  # of services, by whomever
    longest_takeover_s: float | None  # until what was published then was shown to somebody
    broken: list[str]


async def play(course: Course, settings: Settings, place: Place, show: Show) -> Outcome:
    run = _Run(course, settings, place, show)
    try:
        return await run.play()
    finally:
        await run.close()


class _Run:
    def __init__(self, course: Course, settings: Settings, place: Place, show: Show) -> None:
        self._course = course
        self._place = place
        self._show = show
        self._lines = Lines()
        self._system = System(
            msgspec.structs.replace(settings, standbys=course.standbys, gateways=course.gateways),
            brokers=course.brokers,
            environment=ServiceEnvironment(self._lines.through, self._variables),
        )
        self._sent: dict[str, Publication] = {}
        self._subscribers = list(people.audience(self._client, OF_EACH_KIND, course.seed))
        self._tasks: list[asyncio.Task[None]] = []
        self._publishers = [self._publisher(number) for number in range(PUBLISHERS)]
        self._leader_faults = self._on_leader()
        token = self._system.token("admin", "admin")
        self._admin = Client(cluster=self._system.cluster_url, token=token)

    async def play(self) -> Outcome:
        self._show.phase("starting the system")
        await self._lines.start()
        await self._system.start()
        await self._admin.sql(people.STATEMENTS)
        enough, everybody_stays = asyncio.Event(), asyncio.Event()
        listening = [subscriber.run(everybody_stays) for subscriber in self._subscribers]
        publishing = [publisher.run(enough) for publisher in self._publishers]
        self._tasks = [asyncio.create_task(work) for work in [*listening, *publishing]]
        done = await self._break_things()
        self._show.phase("everything is well again: waiting for what is owed")
        enough.set()
        everybody_stays.set()
        broken = await self._settled()
        stored = await self._stored()
        await self._leave()
        broken += history.judge(self._sent, self._people, stored)
        return Outcome(
            figures=history.figures(self._sent, self._people),
            faults=dict(sorted(Counter(planned.name for planned in done).items())),
            restarts={name: self._system.restarts(name) for name in self._system.names},
            longest_takeover_s=self._longest_takeover_s(),
            broken=broken,
        )

    async def close(self) -> None:
        await self._leave()
        for publisher in self._publishers:
            await publisher.close()
        await self._admin.close()
        await self._system.stop()
        await self._lines.close()

    @property
    def _people(self) -> list[Person]:
        return [subscriber.person for subscriber in self._subscribers]

    # The load

    def _client(self, name: str) -> Client:
        token = self._system.token(name, "subscribe")
        return Client(self._system.coordinator_url, token=token, open_timeout_s=20.0)

    def _publisher(self, number: int) -> people.Publisher:
        """Half of them know a broker only; the others know the gateways, if there are any."""
        system = self._system
        urls = [system.gateway_url or system.cluster_url, *system.broker_urls.values()]
        url = urls[0] if number % 2 == 0 else urls[1 + number // 2 % len(system.broker_urls)]
        return people.Publisher(number, url, system.token(f"p{number}", "publish"), self._sent)

    async def _leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    # The faults

    def _variables(self, service: str) -> Mapping[str, str]:
        if self._place.clocks is None:
            return {}
        return clocks.environment(self._place.clocks, self._clock(service))

    def _clock(self, service: str) -> Path:
        assert self._place.clocks is not None
        return self._place.clocks.with_name(service)

    def _faults(self) -> dict[str, Fault]:
        system = self._system
        possible: list[Fault] = [faults.KillJava(system)]
        possible.append(
            faults.PauseProcess("Java", lambda: faults.java_of(system), target="cluster")
        )
        for name in system.names:
            possible.append(faults.KillService(system, name))
            possible.append(faults.PauseProcess(name, partial(system.pid, name)))
            if self._place.clocks is not None:
                steps = faults.STEPS_S
                possible += [faults.StepClock(name, self._clock(name), by_s) for by_s in steps]
        if self._course.standbys:
            possible += self._leader_faults
        for server in self._place.servers:
            possible += [faults.KillServer(server), faults.PauseServer(server)]
        for name, proxy in self._lines.proxies.items():
            possible += [faults.BreakLine(name, proxy, mode) for mode in MODES]
        if self._place.disk is not None:
            possible.append(faults.FillDisk(self._place.disk))
        return {fault.kind.name: fault for fault in possible}

    def _on_leader(self) -> list[faults.OnLeader]:
        system, away_s = self._system, faults.LEADER_AWAY_S

        def cut_off(name: str) -> Fault:
            line = to_store(name)
            return faults.BreakLine(line, self._lines.proxies[line], "stalled")

        def pause(name: str) -> Fault:
            return faults.PauseProcess(name, partial(system.pid, name))

        return [
            faults.OnLeader("kill", system, partial(faults.KillService, system)),
            faults.OnLeader("pause", system, pause, away_s),
            faults.OnLeader("cut off", system, cut_off, away_s),
        ]

    def _longest_takeover_s(self) -> float | None:
        begun_at = [at for fault in self._leader_faults for at in fault.begun_at]
        took = [history.resumed_s(at, self._sent, self._people) for at in begun_at]
        return max((took_s for took_s in took if took_s is not None), default=None)

    async def _break_things(self) -> list[Planned]:
        possible, seconds = self._faults(), self._course.seconds
        kinds = [fault.kind for fault in possible.values()]
        plan = draw(self._course.seed, seconds, kinds)
        self._show.phase(f"{len(plan)} faults of {len(kinds)} kinds in {seconds:.0f} s")
        began_at = time.monotonic()
        await asyncio.gather(*(self._do(possible[planned.name], planned) for planned in plan))
        await asyncio.sleep(max(0.0, began_at + seconds - time.monotonic()))
        return plan

    async def _do(self, fault: Fault, planned: Planned) -> None:
        await asyncio.sleep(planned.begin_s)
        self._show.happened(planned.begin_s, planned.name)
        try:
            await fault.begin()
            await asyncio.sleep(planned.end_s - planned.begin_s)
        finally:
            await fault.end()

    # The end

    async def _settled(self) -> list[str]:
        """Until publishers have their answers, subscribers what they are owed, and services are
        well; what does not come is told."""
        broken: list[str] = []
        if not await _until(lambda: all(task.done() for task in self._publishing), QUIET_LIMIT_S):
            broken.append(f"a publisher had no answer within {QUIET_LIMIT_S:.0f} s")
        await _until(self._quiet, QUIET_LIMIT_S)
        unhealthy = await self._unhealthy()
        if unhealthy:
            broken.append(f"not well within {HEALTH_LIMIT_S:.0f} s: {unhealthy}")
        return broken

    @property
    def _publishing(self) -> list[asyncio.Task[None]]:
        return self._tasks[len(self._subscribers) :]

    def _quiet(self) -> bool:
        return all(
            history.owed(person, self._sent.values()) <= history.seen(person)
            for person in self._people
        )

    async def _unhealthy(self) -> str:
        """Which services do not say that they are well; green health means that records flow."""
        system = self._system
        urls = {**system.cluster_urls, **system.coordinator_urls}
        urls |= system.gateway_urls | system.broker_urls
        deadline = time.monotonic() + HEALTH_LIMIT_S
        async with HttpClient(timeout=5.0) as http:
            while True:
                bad = []
                for name, url in urls.items():
                    with contextlib.suppress(httpx.HTTPError):
                        if await _is_well(http, url):
                            continue
                    bad.append(name)
                if not bad or time.monotonic() > deadline:
                    return ", ".join(bad)
                await asyncio.sleep(LOOK_S)

    async def _stored(self) -> dict[str, int]:
        """How often the store has each record."""
        counts: Counter[str] = Counter()
        for dataset in people.DATASETS:
            (answer,) = await self._query(f"SELECT collect_list(id) AS ids FROM {dataset}")  # noqa: S608
            counts.update(answer.rows[0][0])
        return dict(counts)

    async def _query(self, text: str) -> list[StatementResult]:
        """The system is well by now, but may have become so a moment ago."""
        for _ in range(20):
            with contextlib.suppress(TocsinError):
                return await self._admin.sql(text)
            await asyncio.sleep(1.0)
        return await self._admin.sql(text)


async def _is_well(http: httpx.AsyncClient, url: str) -> bool:
    """A standby is well while it could take the leader's place."""
    answer = await http.get(f"{url}/healthz")
    if answer.is_success or b'"standby"' not in answer.content:
        return answer.is_success
    said = msgspec.json.decode((await http.get(f"{url}/v1/status")).content, type=ClusterStatus)
    return said.role == "standby" and said.trouble is None and said.waits_for is None


async def _until(condition: Callable[[], bool], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(LOOK_S)
    return True
