"""Collection: what nothing mentions goes after its time of grace, what something mentions never
goes, whatever happens while it is looked for."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.sparkless import sparkless
from cluster.test_attachments import PHOTO, REPORTS, id_of, photo
from tocsin.cluster.attachments import AttachmentStore, Mentions
from tocsin.cluster.attachments.pins import Pins
from tocsin.cluster.intake import Intake
from tocsin.errors import Unavailable
from tocsin.intake.formats import RawRecord
from tocsin.intake.validator import mentioned
from tocsin.model import Channel, Parameter
from tocsin.storage.content import Kept
from tocsin.storage.store.runs import Run

IDS = ["a" * 64, "b" * 64, "c" * 64]
GRACE_S = 10.0
STEPS = (
    *("wait", "upload", "admit", "append", "flush", "retire"),
    *("merge", "sweep", "run", "commit", "expire", "forget"),
)


class FakeStore:
    """A content store that says when it is looked at."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.files: dict[str, float] = {}
        self.meanwhile = meanwhile

    def info(self, id: str) -> Kept | None:
        return Kept(id, 1, self.files[id]) if id in self.files else None

    def kept(self) -> Iterator[Kept]:
        for id in list(self.files):
            self.meanwhile()
            if id in self.files:
                yield Kept(id, 1, self.files[id])

    def drop(self, id: str) -> None:
        self.files.pop(id, None)


class Model:
    """A cluster as a few lists of ids. Anything may happen between any two looks."""

    def __init__(self, choose: Callable[[list[Any]], Any], many: Callable[[], int]) -> None:
        self.now = 1000.0
        self.choose, self.many = choose, many
        self.store = FakeStore(self.meanwhile)
        self.attachments = AttachmentStore(self.store, lambda: self.now)  # type: ignore[arg-type]
        self.admitted: list[str] = []  # on their way into the log
        self.log: list[str] = []
        self.files: list[str] = []
        self.retired: list[str] = []  # a run may still read them
        self.running: list[str] = []
        self.results: list[str] = []

    def meanwhile(self) -> None:
        for _ in range(self.many()):
            self.step(self.choose(list(STEPS)))

    def step(self, kind: str) -> None:
        getattr(self, kind)()
        self.check()

    def check(self) -> None:
        """`running` is in a file or in the log still: that is what the time of grace is for."""
        mentions = [*self.admitted, *self.log, *self.files, *self.results, *self.retired]
        assert set(mentions) <= set(self.store.files), "something mentioned is gone"

    def wait(self) -> None:
        self.now += GRACE_S * 0.6

    def upload(self) -> None:
        id = self.choose(IDS)
        self.attachments.hold([id])
        self.store.files[id] = self.now
        self.attachments.release([id])

    def admit(self) -> None:
        id = self.choose(IDS)
        self.attachments.hold([id])
        if self.attachments.size_bytes(id) is None:
            self.attachments.release([id])
        else:
            self.admitted.append(id)

    def append(self) -> None:
        self._move(self.admitted, self.log, self.attachments.release)

    def flush(self) -> None:
        if self.log:
            self.files.append(self.choose(self.log))

    def retire(self) -> None:
        for id in [one for one in self.log if one in self.files]:
            self.log.remove(id)
            return

    def merge(self) -> None:
        self._move(self.files, self.retired)

    def sweep(self) -> None:
        for id in [one for one in self.retired if one not in self.running]:
            self.retired.remove(id)
            return

    def run(self) -> None:
        there = self.log + self.files
        if there:
            self.running.append(self.choose(there))
            self.retired.append(self.running[-1])  # what it reads stays as long as it runs

    def commit(self) -> None:
        self._move(self.running, self.results)

    def expire(self) -> None:
        if self.results:
            self.results.remove(self.choose(self.results))

    def forget(self) -> None:
        if self.files:
            self.files.remove(self.choose(self.files))

    def _move(self, here: list[str], there: list[str], then: Any = None) -> None:
        if here:
            id = self.choose(here)
            there.append(id)
            here.remove(id)
            if then is not None:
                then([id])

    def collect(self) -> None:
        self.attachments.collect(ModelMentions(self).look, GRACE_S)
        self.check()


class ModelMentions(Mentions):
    """The real order of looking, in the model's places."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._store: Any = SimpleNamespace(catalog=SimpleNamespace(datasets=list))

    def _logged(self, _: Any) -> Iterator[set[str]]:
        return self._in("log")

    def _stored(self, _: Any) -> Iterator[set[str]]:
        return self._in("files", "retired")

    def _results(self, _: Any) -> Iterator[set[str]]:
        return self._in("results")

    def _in(self, *places: str) -> Iterator[set[str]]:
        for place in places:
            self._model.meanwhile()
            yield set(getattr(self._model, place))


@settings(max_examples=400)
@given(data=st.data())
def test_nothing_mentioned_is_ever_collected(data: st.DataObject) -> None:
    many = st.integers(0, 3)
    model = Model(lambda some: data.draw(st.sampled_from(some)), lambda: data.draw(many))
    for kind in data.draw(st.lists(st.sampled_from([*STEPS, "upload"]), max_size=12)):
        model.step(kind)
    for _ in range(3):
        model.now += GRACE_S * 2  # all of it may go now, if nothing mentions it
        model.step("collect")
        model.meanwhile()


WAY = ("flush", "retire", "run", "commit", "forget", "sweep", "sweep")
"""From the log to a file, and from there to a result, each time leaving nothing behind."""


def test_a_mention_that_moves_is_seen_wherever_it_is() -> None:
    """All ways to spread its moves over the moments between two looks."""
    moments = 6  # before what is kept is listed, before each of four places, and behind all
    for cuts in itertools.combinations_with_replacement(range(len(WAY) + 1), moments - 1):
        ends = [0, *cuts, len(WAY)]
        steps = iter([WAY[begin:end] for begin, end in itertools.pairwise(ends)])
        model = Model(lambda some: some[0], lambda: 0)
        model.step("upload")
        model.log.append(IDS[0])
        model.now += GRACE_S * 2

        def move(model: Model = model, steps: Any = steps) -> None:
            for kind in next(steps, ()):
                model.step(kind)

        model.store.meanwhile = model.meanwhile = move  # type: ignore[method-assign]
        model.collect()
        move()
        assert IDS[0] in model.store.files


@given(data=st.data())
def test_what_nothing_mentions_goes_after_its_grace(data: st.DataObject) -> None:
    model = Model(lambda some: data.draw(st.sampled_from(some)), lambda: 0)
    for kind in data.draw(st.lists(st.sampled_from([*STEPS, "upload", "upload"]), max_size=25)):
        model.step(kind)
    for _ in range(2):
        model.step("wait")
    model.collect()
    mentions = [*model.admitted, *model.log, *model.files, *model.results, *model.retired]
    assert set(model.store.files) == set(mentions)


def test_what_was_held_while_it_was_looked_for_stays_though_the_clock_went_back() -> None:
    pins = Pins()
    pins.begin()
    pins.hold(["a", "b"], now=5.0)
    pins.release(["a", "b"])
    assert not pins.may_drop("a", modified_at=1.0, oldest=50.0)
    pins.end(oldest=50.0)
    pins.begin()
    assert pins.may_drop("a", modified_at=1.0, oldest=50.0)


def test_grace_counts_from_the_last_hold_where_files_do_not_tell() -> None:
    pins = Pins()
    pins.hold(["a"], now=60.0)
    pins.release(["a"])
    pins.begin()
    assert not pins.may_drop("a", modified_at=1.0, oldest=50.0)
    assert pins.may_drop("a", modified_at=1.0, oldest=61.0)


def test_an_id_is_found_wherever_it_stands() -> None:
    id = id_of(b"x")
    for text in (f'{{"id":"{id}"}}', f"https://x/feed{id}", f"{id}{id}", f"0{id}0"):
        assert id in mentioned(text.encode())
    assert mentioned(id.upper().encode()) == set()
    assert mentioned(id[:-1].encode()) == set()


async def test_every_place_of_a_real_cluster_is_looked_at(tmp_path: Path) -> None:
    """The log, Parquet in use and retired, and results; and nothing else keeps bytes."""
    data = {name: name.encode() * 10 for name in ("log", "file", "retired", "result", "nobody")}
    async with sparkless(tmp_path) as cluster:
        keyed = msgspec.structs.replace(REPORTS, primary_key=("key",))
        await cluster.create_dataset(keyed)
        content = cluster.attachments.content
        for one in data.values():
            content.put(one)

        async def publish(name: str) -> None:
            await cluster.publish_all("reports", [{"key": name, "photo": photo(data[name])}])

        await publish("retired")
        cluster.store_away(keyed)
        (old,) = cluster.store.files.files("reports")
        cluster.store.files.replace("reports", [old.path], [])
        await publish("file")
        cluster.store_away(keyed)
        await publish("log")
        _make_result(cluster.store, {"where": id_of(data["result"])})
        mentions = Mentions(cluster.store, cluster.log, cluster.tables)
        found = await asyncio.to_thread(mentions.look)
        assert found == {id_of(one) for name, one in data.items() if name != "nobody"}
        for file in (tmp_path / "attachments").glob("??/??/*"):
            os.utime(file, (1, 1))
        # Those that records were just published with were held a moment ago.
        dropped = await asyncio.to_thread(cluster.attachments.collect, mentions.look, 1000.0)
        assert dropped == 1
        assert content.info(id_of(data["nobody"])) is None
        assert len(list(content.kept())) == 4


def _make_result(store: Any, payload: dict[str, Any]) -> None:
    store.catalog.create_channel(
        Channel(
            "floods", "continuous", (Parameter("type", "STRING"),), "", ("reports",), ("reports",)
        )
    )
    made, _ = store.subscriptions.subscribe("ann", "floods", {"type": "x"}, None, None)
    store.runs.commit_run(
        Run("floods", "batch-1", 1.0, 2.0), [(made.backend.id, msgspec.json.encode(payload))]
    )


async def test_a_refused_record_holds_nothing_and_an_accepted_one_lets_go(tmp_path: Path) -> None:
    async with sparkless(tmp_path) as cluster:
        await cluster.create_dataset(REPORTS)
        held = cluster.attachments._custody._held
        cluster.attachments.content.put(PHOTO)
        for _ in range(2):
            await cluster.publish_all("reports", [{"key": "a", "photo": photo()}] * 3)
        bad = [RawRecord(1, {"photo": photo(b"missing")}), RawRecord(2, {"photo": photo(size=2)})]
        refused = await cluster.publish("reports", bad, publisher="ann", source="test")
        assert refused.rejected == 2
        assert dict(held) == {}


class AwayFor(FakeStore):
    """It answers for all attachments but one."""

    def __init__(self, id: str) -> None:
        super().__init__(lambda: None)
        self.files = dict.fromkeys(IDS, 1.0)
        self._id = id

    def info(self, id: str) -> Kept | None:
        if id == self._id:
            raise Unavailable("the store is away")
        return super().info(id)


def test_records_that_could_not_be_looked_at_hold_nothing() -> None:
    """Neither the one whose attachment could not be looked for, nor those before it."""
    attachments = AttachmentStore(AwayFor(IDS[2]))  # type: ignore[arg-type]
    intake = Intake(None, lambda _: REPORTS, 10_000, attachments)  # type: ignore[arg-type]
    told = [{"id": id, "size": 1, "type": "image/png"} for id in IDS]
    with pytest.raises(Unavailable):
        intake.sort(REPORTS, [RawRecord(1, {"photo": one}) for one in told], "ann", "test")
    assert dict(attachments._custody._held) == {}


class Slow(FakeStore):
    """Its network takes as long as the test wants."""

    def __init__(self) -> None:
        super().__init__(lambda: None)
        self.files = dict.fromkeys(IDS[:1], 1.0)
        self.dropping, self.go_on = Event(), Event()

    def drop(self, id: str) -> None:
        self.dropping.set()
        assert self.go_on.wait(30)
        super().drop(id)


def test_a_slow_drop_keeps_nobody_waiting_but_those_who_want_it() -> None:
    store = Slow()
    attachments = AttachmentStore(store)  # type: ignore[arg-type]
    with ThreadPoolExecutor(2) as threads:
        collecting = threads.submit(attachments.collect, set, 0.0)
        assert store.dropping.wait(30)
        attachments.hold(IDS[1:])
        attachments.release(IDS[1:])

        def admit() -> int | None:
            attachments.hold(IDS[:1])
            return attachments.size_bytes(IDS[0])

        admitting = threads.submit(admit)
        assert wait([admitting], 0.1).not_done  # it would find what is just leaving
        store.go_on.set()
        assert collecting.result(30) == 1
        assert admitting.result(30) is None


def test_a_drop_that_fails_ends_the_collection_and_lets_all_go_on() -> None:
    store = Slow()
    store.drop = AwayFor(IDS[0]).info  # type: ignore[assignment]
    attachments = AttachmentStore(store)  # type: ignore[arg-type]
    with pytest.raises(Unavailable):
        attachments.collect(set, 0.0)
    attachments.hold(IDS)
    assert attachments.size_bytes(IDS[0]) == 1


async def test_what_is_not_in_the_log_yet_is_held(tmp_path: Path) -> None:
    async with sparkless(tmp_path) as cluster:
        await cluster.create_dataset(REPORTS)
        attachments = cluster.attachments
        attachments.content.put(PHOTO)
        intake: Intake = cluster.intake
        raw = [RawRecord(1, {"key": "a", "photo": photo()})]
        records = intake.sort(REPORTS, raw, "ann", "test")
        assert attachments.collect(set, -1000.0) == 0  # older than tomorrow, and yet
        await intake.append("reports", records, None)
        assert (
            attachments.collect(set, -1000.0) == 1
        )  # that look finds nothing, and nobody holds it


async def test_the_cluster_collects_by_itself(tmp_path: Path) -> None:
    async with sparkless(tmp_path, attachment_grace_s=0.2) as cluster:
        await cluster.create_dataset(REPORTS)
        content = cluster.attachments.content
        content.put(b"nobody wants this")
        content.put(PHOTO)
        await cluster.publish_all("reports", [{"key": "a", "photo": photo()}])
        async with asyncio.timeout(20):
            while content.info(id_of(b"nobody wants this")):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert content.info(id_of(PHOTO))


def test_who_may_be_replaced_deletes_nothing() -> None:
    """Another cluster may have taken a record that mentions it, and counts on the bytes."""
    store = FakeStore(lambda: None)
    store.files = dict.fromkeys(IDS, 1.0)

    def confirm() -> None:
        raise Unavailable("the lease has lapsed")

    attachments = AttachmentStore(store, confirm=confirm)  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match="lapsed"):
        attachments.collect(set, 0.0)
    assert set(store.files) == set(IDS)
