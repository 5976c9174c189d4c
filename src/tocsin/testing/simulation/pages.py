"""A world whose results mention attachments. Clients ask brokers for them; fetches are slow, fail
or bring damaged bytes; brokers crash, and begin again with what their disks hold, or what is left
of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from tocsin.broker.machine import BrokerMachine
from tocsin.broker.machine.effects import (
    DropPage,
    Effect,
    EndFetch,
    FetchPage,
    KeepPage,
    PageEffect,
    ServePage,
)
from tocsin.errors import NotFound, TocsinError, Unavailable
from tocsin.model import Attachment
from tocsin.policies.page import page_policy_names, parse_page_policy
from tocsin.testing.simulation.broker import SimulatedBroker
from tocsin.testing.simulation.checkers import promise
from tocsin.testing.simulation.page_checker import PageChecker, is_right
from tocsin.testing.simulation.world import World

STORIES = range(4)
BROKEN_OFF = Unavailable("the connection broke")


class Reader:
    """Somebody who asks a broker for a page."""

    def __init__(self, ask: int, page: str, notification: bool, checker: PageChecker) -> None:
        self.ask = ask
        self.page = page
        self.notification = notification
        self.over = False
        self.disappointed = 0  # times that what was kept for it was damaged
        self._checker = checker
        checker.asked(ask, page)

    def answered(self, answer: ServePage) -> None:
        raise AssertionError("bytes are the site's")

    def got(self, data: bytes) -> None:
        if not self.over:
            self.over = True
            self._checker.got(self.ask, data)

    def failed(self, error: TocsinError) -> None:
        if not self.over:
            self.over = True
            self._checker.failed(self.ask, error)

    def leave(self) -> None:
        self.over = True
        self._checker.left(self.ask)


class Transfer:
    """A page on its way to a broker."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.data = b""
        self.whole = False
        self.readers: list[Reader] = []


class Site:
    """What a broker's process does with bytes, as the live server does it. Its disk stays when the
    process dies."""

    def __init__(self, world: PageWorld, broker: SimulatedBroker) -> None:
        self.disk: dict[str, bytes] = {}
        self.readers: set[Reader] = set()
        self._world = world
        self._broker = broker
        self._transfers: dict[int, Transfer] = {}

    @property
    def machine(self) -> BrokerMachine | None:
        return self._broker.machine

    def begin(self) -> None:
        for page in [page for page, data in self.disk.items() if not is_right(page, data)]:
            del self.disk[page]
        assert self.machine is not None
        sizes = [(page, len(data)) for page, data in self.disk.items()]
        self._broker.do(self.machine.pages.begin(sizes))

    def die(self) -> None:
        self._transfers.clear()
        self._world.pages.crashed(self._broker.name)
        for reader in self.readers:
            reader.failed(BROKEN_OFF)
        self.readers.clear()

    def ask(self, reader: Reader) -> None:
        if self.machine is None:
            reader.failed(BROKEN_OFF)
            return
        self.readers.add(reader)
        self._broker.do(self.machine.pages.asked(reader, reader.page, reader.notification))

    def leave(self, reader: Reader) -> None:
        self.readers.discard(reader)
        reader.leave()
        if self.machine is not None:
            self._broker.do(self.machine.pages.left(reader))

    def check(self) -> None:
        assert self.machine is not None
        cache = self.machine.pages.cache
        cached = [page for page in self.disk if page in cache]
        self._world.pages.check_disk(self._broker.name, self.disk, cache.capacity_bytes, cached)

    def check_over(self) -> None:
        """In the end the process holds no bytes but those that it keeps."""
        promise(not self._transfers, f"{self._broker.name} still holds {self._transfers}")
        assert self.machine is not None
        pages = self.machine.pages
        promise(pages.filling == 0, f"{self._broker.name} waits for {pages.filling} pages")
        promise(
            set(pages.kept) == set(self.disk) and len(pages.cache) == len(self.disk),
            f"{self._broker.name} holds {len(pages.cache)} pages, and {len(self.disk)} on disk",
        )

    # -- effects ----------------------------------------------------------------------------------

    def carry_out(self, effect: PageEffect) -> None:
        match effect:
            case ServePage(reader, page, _, fetch):
                assert isinstance(reader, Reader)
                self._serve(reader, page, fetch)
            case FetchPage(fetch, page):
                self._world.pages.fetch_began(self._broker.name, fetch, page)
                self._transfers[fetch] = Transfer(page)
                self._soon(fetch, self._answered)
            case EndFetch(fetch):
                transfer = self._transfers.pop(fetch)
                reading = [reader.ask for reader in transfer.readers if reader in self.readers]
                promise(not reading, f"the fetch of {transfer.page} ended, {reading} read it")
                if not transfer.whole:
                    self._world.pages.fetch_ended(self._broker.name, transfer.page)
            case KeepPage(fetch, page):
                transfer = self._transfers[fetch]
                promise(transfer.whole, f"{page} is kept before it is whole")
                if self._world.fault(0.05):  # the disk is full
                    self._later(lambda machine: machine.pages.damaged(page))
                else:
                    self.disk[page] = transfer.data
            case DropPage(page):
                self.disk.pop(page, None)

    def _serve(self, reader: Reader, page: str, fetch: int | None) -> None:
        if fetch is not None:
            transfer = self._transfers[fetch]
            self._world.pages.shared += bool(transfer.readers)
            transfer.readers.append(reader)
        elif is_right(page, data := self.disk.get(page)):
            assert data is not None
            self._done(reader)
            reader.got(data)
        else:
            reader.disappointed += 1
            promise(reader.disappointed < 5, f"{page} is damaged, and served again and again")
            self._later(lambda machine: machine.pages.damaged(page))
            self._later(lambda machine: machine.pages.asked(reader, page, reader.notification))

    def _done(self, reader: Reader) -> None:
        """It has all that it asked for, or will get no more."""
        self.readers.discard(reader)
        self._later(lambda machine: machine.pages.left(reader))

    # -- fetches ----------------------------------------------------------------------------------

    def _answered(self, fetch: int, transfer: Transfer) -> None:
        """The cluster tells the size, or why not."""
        world, page = self._world, transfer.page
        if world.cluster.down or world.fault(0.15):
            self._failed(fetch, transfer, Unavailable("no answer"))
        elif page not in world.content:
            self._failed(fetch, transfer, NotFound(f"there is no attachment {page}"))
        else:
            data = world.content[page]
            transfer.data = data[:-1] + b"!" if world.fault(0.15) else data
            self._soon(fetch, self._came)
            assert self.machine is not None
            self._broker.do(self.machine.pages.begun(fetch, len(data)))

    def _came(self, fetch: int, transfer: Transfer) -> None:
        if self._world.cluster.down or self._world.fault(0.15):
            self._failed(fetch, transfer, BROKEN_OFF)
        elif not is_right(transfer.page, transfer.data):
            self._failed(fetch, transfer, Unavailable("it came damaged"))
        else:
            transfer.whole = True
            self._world.pages.fetch_ended(self._broker.name, transfer.page)
            assert self.machine is not None
            self._broker.do(self.machine.pages.fetched(fetch))
            for reader in transfer.readers:
                reader.got(transfer.data)
                self._done(reader)

    def _failed(self, fetch: int, transfer: Transfer, error: TocsinError) -> None:
        self._world.pages.fetch_ended(self._broker.name, transfer.page)
        assert self.machine is not None
        self._broker.do(self.machine.pages.failed(fetch, error))
        for reader in transfer.readers:  # in the middle of it
            reader.failed(BROKEN_OFF)
            self._done(reader)

    def _soon(self, fetch: int, then: Callable[[int, Transfer], None]) -> None:
        """Unless it is given up, or the process dies."""
        transfer = self._transfers[fetch]

        def arrive() -> None:
            if self._transfers.get(fetch) is transfer:
                then(fetch, transfer)

        self._world.later(self._world.delay_s(), arrive)

    def _later(self, event: Callable[[BrokerMachine], list[Effect]]) -> None:
        """What comes of carrying an effect out waits for those before."""
        incarnation = self._broker.incarnation

        def arrive() -> None:
            if self.machine is not None and self._broker.incarnation == incarnation:
                self._broker.do(event(self.machine))

        self._world.later(0.0, arrive)


class PageWorld(World):
    def __init__(self, seed: int, policies: Sequence[str] = ()) -> None:
        self.content: dict[str, bytes] = {}
        self.pages = PageChecker(self.content)
        self._mentioned: list[str] = []
        self._sites: dict[str, Site] = {}
        self._asks = 0
        super().__init__(seed, policies)
        self.cluster.attachments, self.cluster.keys = ("photo",), ("story",)
        self._sites = {broker.name: Site(self, broker) for broker in self.brokers}

    def fault(self, chance: float) -> bool:
        return self.faulty and self.random.random() < chance

    # -- brokers ----------------------------------------------------------------------------------

    def page_cache(self) -> tuple[str, int]:
        choose = self.random.choice
        return choose(page_policy_names()), choose([0, 40, 120, 1000])

    def began(self, broker: SimulatedBroker) -> None:
        self._sites[broker.name].begin()

    def died(self, broker: SimulatedBroker) -> None:
        self._sites[broker.name].die()

    def page_effect(self, broker: SimulatedBroker, effect: PageEffect) -> None:
        self._sites[broker.name].carry_out(effect)

    def stepped(self, broker: SimulatedBroker) -> None:
        self._sites[broker.name].check()

    # -- what happens -----------------------------------------------------------------------------

    def payload(self) -> bytes:
        """A result with a photo: a new one, one that was there before, one that is nowhere; now
        and then its size is made up."""
        draw, choose = self.random.random(), self.random.choice
        if self._mentioned and draw < 0.4:
            page = choose(self._mentioned)
        else:
            data = self.random.randbytes(choose([0, 3, 20, 30, 60]))
            page = hashlib.sha256(data).hexdigest()
            if draw < 0.95:
                self.content[page] = data
            self._mentioned.append(page)
        size = 1 if self.random.random() < 0.05 else len(self.content.get(page, b"nowhere"))
        photo = Attachment(page, size, "image/png")
        return msgspec.json.encode({"photo": photo, "story": choose(STORIES)})

    def ask(self, site: Site, page: str, notification: bool) -> Reader:
        self._asks += 1
        reader = Reader(self._asks, page, notification, self.pages)
        self.later(self.delay_s(), lambda: None if reader.over else site.ask(reader))
        return reader

    def happen(self) -> None:
        draw, choose = self.random.random(), self.random.choice
        broker = choose(self.brokers)
        site = self._sites[broker.name]
        if self.cluster.down and draw < 0.3:
            self.cluster.down = False
        elif draw < 0.45 or not self._mentioned:
            super().happen()
        elif draw < 0.80:
            page = choose(self._mentioned[-6:])
            for _ in range(choose([1, 1, 2, 5])):
                self.ask(site, page, choose([True, False]))
        elif draw < 0.85:
            for reader in sorted(site.readers, key=lambda reader: reader.ask)[:2]:
                site.leave(reader)
        elif draw < 0.89 and site.disk:
            page = choose(sorted(site.disk))
            site.disk[page] = site.disk[page][:-1]  # the disk rots
        elif draw < 0.95 and broker.machine is not None:
            policy, capacity_bytes = self.page_cache()
            pages = broker.machine.pages
            broker.do(pages.set_policy(parse_page_policy(policy), capacity_bytes))
        elif draw < 0.98 and broker.machine is not None:
            broker.crash()
            self.later(self.random.random() * self.scale, broker.start)
        else:
            self.cluster.down = True

    # -- what must hold in the end ----------------------------------------------------------------

    def quieten(self) -> None:
        """Whatever failed before, everything that exists can be had now, at every broker."""
        self.cluster.down = False
        super().quieten()
        served, failures = self.pages.served, self.pages.failures
        for site in self._sites.values():
            for page in sorted(self.content):
                self.ask(site, page, False)
        self.run_until(self.now + 20 * self.scale)
        promise(self.pages.failures == failures, "an attachment could not be had in the end")
        asked = len(self._sites) * len(self.content)
        promise(self.pages.served - served == asked, "an attachment was not given in the end")
        self.pages.check_over()
        for site in self._sites.values():
            site.check_over()
