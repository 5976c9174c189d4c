"""The demo from start to verdict: services up, the city's hour, quiet, everybody back, account.

Joins the pure parts (trace, ledger, table) with real services. How it is shown is `show`'s
business, how it is asked for the command line's.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tocsin.demo.course import CityPlayer
from tocsin.demo.gallery import Gallery
from tocsin.demo.ledger import Ledger, Outcome, percentile
from tocsin.demo.pictures import LEAST_SEVERITY, draw
from tocsin.demo.player import Publisher, Record
from tocsin.demo.reports import drill
from tocsin.demo.services import CACHE_METRICS, CacheCounts, Runs, Services, tell
from tocsin.demo.show import Glance, Show
from tocsin.demo.trace import Plan, Trace, make_trace
from tocsin.demo.visit import Person, Watch
from tocsin.settings import Settings
from tocsin.system import System

DRILL_LIMIT_S = 120.0
QUIET_LIMIT_S = 60.0
RETURN_LIMIT_S = 60.0
GLANCE_S = 0.25
ASK_S = 0.5
SCOPES = ("publish", "subscribe", "admin", "broker")


class Course(Struct, frozen=True, kw_only=True):
    """What is played: how long, for how many people, how fast, which hour."""

    seconds: float = 60.0
    subscribers: int = 400
    speed: float = 60.0
    seed: int = 1
    brokers: int = 2

    def trace(self) -> Trace:
        plan = Plan(
            seed=self.seed, subscribers=self.subscribers, duration_s=self.seconds * self.speed
        )
        return make_trace(plan).compress(self.speed)


class Report(Struct, frozen=True, kw_only=True):
    """The verdict, and what is worth knowing beside it."""

    outcome: Outcome
    details: dict[str, Any]
    interrupted: bool

    def pace(self) -> str | None:
        """How often channels ran: their periods are what was asked, this is what Spark managed."""
        counts = [run["count"] for run in self.details["course_runs"].values()]
        if not counts or not min(counts):
            return None
        course_s = self.details["phases_s"]["course"]
        often, seldom = course_s / max(counts), course_s / min(counts)
        return f"During the course each channel ran every {often:.1f} to {seldom:.1f} s."

    @property
    def passed(self) -> bool:
        return self.outcome.promises_held and self.outcome.total.delivered > 0


class Demo:
    """One run against services that are up. `System` and tests both provide those."""

    def __init__(
        self, trace: Trace, services: Services, token_for: Callable[[str], str], show: Show
    ) -> None:
        self._services = services
        self._show = show
        self.ledger = Ledger()
        self.watch = Watch(self.ledger)
        self._seed = trace.plan.seed
        self.gallery = Gallery(services.open, self._seed, trace.speed, self.watch.mishaps)
        self._published = 0
        names = sorted({e.subscriber for e in trace.opening if hasattr(e, "subscriber")})
        self._people = {
            name: Person(name, services.locate, token_for(name), self.watch, self.gallery)
            for name in names
        }
        self._publisher = Publisher(self._send, self._completed)
        self.player = CityPlayer(trace, self._people, self._publisher)
        self._caches: dict[str, CacheCounts] = {}
        self._phases_s: dict[str, float] = {}
        self._course_runs: dict[str, Runs] = {}

    async def run(self) -> None:
        """The whole play; the ledger has seen it all when this returns."""
        trace = self.player.trace
        wishes = sum(type(event).__name__ == "Subscribe" for event in trace.opening)
        with self._phase("city"):
            self._show.note("making the city: its datasets and channels")
            await self._services.create_city(trace.speed)
        with self._phase("opening"):
            self._show.opening(wishes)
            await self._shown(self.player.open())
        with self._phase("drill"):
            self._show.note("a drill: a report that concerns nobody warms Spark up")
            self.player.publish("emergencies", drill())
            await self._publisher.finished()
            await self._shown(self._calm(DRILL_LIMIT_S))
        with self._phase("course"):
            self._show.course(trace.duration_s, trace.speed)
            before = await self._services.runs()
            await self._shown(self.player.course())
            self._course_runs = _difference(before, await self._services.runs())
        with self._phase("quiet"):
            self._show.note("the hour is over: waiting until nothing is under way")
            await self._shown(self._calm(QUIET_LIMIT_S))
        with self._phase("return"):
            self._show.note("everybody comes back: to hear what happened while they were away")
            await self._shown(self._come_back())

    async def account(self, *, interrupted: bool = False) -> Report:
        """Close the books. Heads are asked for last, so that nothing is displayed after them."""
        await self.gallery.close()
        await self._everybody_out(wait=not interrupted)
        tell(self.ledger, await self._services.heads(self.ledger.backends()))
        self._caches |= await self._services.caches()
        for name, counts in self._caches.items():
            counters = {field: getattr(counts, field) for field in CACHE_METRICS}
            self.ledger.cache(name, **counters)
        if interrupted:
            self.ledger.interrupted()
        return Report(
            outcome=self.ledger.outcome(),
            details=self._details(),
            interrupted=interrupted,
        )

    async def _send(self, dataset: str, records: Sequence[Record]) -> None:
        accepted = await self._services.send(dataset, records)
        self.ledger.published(dataset, accepted)
        self._published += accepted

    def _completed(self, record: Record) -> Awaitable[Record] | None:
        """Worse emergencies come with a picture."""
        return self._pictured(record) if record.get("severity", 0) >= LEAST_SEVERITY else None

    async def _pictured(self, record: Record) -> Record:
        """Its picture is uploaded before the report is published."""
        name = record["report_id"]
        picture = draw(record["type"], f"{self._seed} {name}")
        return {**record, "photo": await self._services.upload(picture, f"{name}.png")}

    async def _shown(self, work: Awaitable[None]) -> None:
        """Do this and keep the display up to date meanwhile."""
        doing = asyncio.ensure_future(work)
        asked_at = 0.0
        try:
            while not doing.done():
                if time.monotonic() - asked_at > 1:
                    asked_at = time.monotonic()
                    self._caches |= await self._services.caches()
                self._show.glance(self._glance())
                await asyncio.wait([doing], timeout=GLANCE_S)
            await doing
            self._show.glance(self._glance())
        finally:
            doing.cancel()

    def _glance(self) -> Glance:
        hits = sum(counts.hits for counts in self._caches.values())
        misses = sum(counts.misses for counts in self._caches.values())
        return Glance(
            elapsed_s=self.player.elapsed_s,
            published=self._published,
            displayed=self.watch.displayed,
            online=self.watch.online,
            subscriptions=self.watch.subscriptions,
            hit_ratio=hits / (hits + misses) if hits + misses else None,
        )

    async def _calm(self, limit_s: float) -> None:
        """Until every channel has done a run that began after the last publication."""
        before = await self._services.runs()
        limit = time.monotonic() + limit_s
        while time.monotonic() < limit:
            after = await self._services.runs()
            # The first run that ends after this moment may have begun before it.
            if all(after[name].count >= before[name].count + 2 for name in after):
                return
            await asyncio.sleep(ASK_S)
        self.watch.mishaps.append(f"channels were still running after {limit_s:.0f} s")

    async def _come_back(self) -> None:
        await self.player.all_in()
        limit = time.monotonic() + RETURN_LIMIT_S
        while True:
            tell(self.ledger, await self._services.heads(self.ledger.backends()))
            if self.ledger.outstanding() == 0 or time.monotonic() > limit:
                return
            await asyncio.sleep(ASK_S)

    async def _everybody_out(self, *, wait: bool) -> None:
        people = self._people.values()
        if wait:
            await self.player.idle()
        else:
            await asyncio.gather(*(person.give_up() for person in people))
        await asyncio.gather(*(person.leave(settle=wait) for person in people))

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._phases_s[name] = round(time.monotonic() - started, 2)

    def _details(self) -> dict[str, Any]:
        ways = self.watch.on_the_way_ms
        return {
            "result_to_display_ms": {
                "mean": sum(ways) / len(ways) if ways else None,
                "p50": percentile(ways, 0.5),
                "p99": percentile(ways, 0.99),
            },
            "fetch_ms": 1000 * sum(c.fetch_s for c in self._caches.values()) / len(self._caches)
            if self._caches
            else None,
            "frontend_subscriptions": self.watch.subscriptions,
            "backend_subscriptions": len(self.ledger.backends()),
            "logins": self.watch.logins,
            "behind_s": round(self.player.behind_s, 3),
            "phases_s": self._phases_s,
            "course_runs": {
                name: {"count": run.count, "mean_s": round(run.seconds / max(1, run.count), 3)}
                for name, run in sorted(self._course_runs.items())
            },
            "mishaps": self.watch.mishaps[:20],
        }


def _difference(before: Mapping[str, Runs], after: Mapping[str, Runs]) -> dict[str, Runs]:
    return {
        name: Runs(run.count - before[name].count, run.seconds - before[name].seconds)
        for name, run in after.items()
    }


Companion = Callable[[Mapping[str, str], str], contextlib.AbstractAsyncContextManager[Any]]
"""Something that goes on beside the play, given the brokers' addresses and a token."""


def _nothing(brokers: Mapping[str, str], token: str) -> contextlib.AbstractAsyncContextManager[Any]:
    return contextlib.nullcontext()


async def perform(
    course: Course, settings: Settings, show: Show, companion: Companion = _nothing
) -> Report:
    """Start a system in the settings' data directory, run the demo in it, stop everything.

    Ctrl-C ends the play, not the account: the table then tells what was seen so far.
    """
    trace = course.trace()
    system = System(settings, brokers=course.brokers)
    with _interruptible() as stop:
        try:
            show.starting()
            if not await _unless(stop, system.start(show.service)):
                raise KeyboardInterrupt
            token = system.token("demo", *SCOPES)
            show.token(token)
            services = Services(
                system.cluster_url,
                system.coordinator_url,
                system.broker_urls,
                token,
                system.inner_urls,
            )
            try:
                await services.all_known()
                demo = Demo(trace, services, lambda name: system.token(name, "subscribe"), show)
                async with companion(system.broker_urls, token):
                    finished = await _unless(stop, demo.run())
                    if not finished:
                        show.note("interrupted: closing the books")
                    report = await demo.account(interrupted=not finished)
            finally:
                await services.close()
            report.details["restarts"] = {name: system.restarts(name) for name in system.names}
            return report
        finally:
            show.stopping()
            await system.stop()


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do this unless `stop` is set before it is done; whether it was done."""
    doing = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
            return True
        return False
    finally:
        stopping.cancel()
        doing.cancel()
        await asyncio.wait([doing])


@contextlib.contextmanager
def _interruptible() -> Iterator[asyncio.Event]:
    """The event that Ctrl-C (or SIGTERM) sets; a second one ends this task at once."""
    stop = asyncio.Event()
    main = asyncio.current_task()
    assert main is not None
    loop = asyncio.get_running_loop()

    def asked_to_stop() -> None:
        if stop.is_set():
            main.cancel()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked_to_stop)
    try:
        yield stop
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def is_empty(directory: Path) -> bool:
    return not directory.exists() or not any(directory.iterdir())
