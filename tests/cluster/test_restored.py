"""A store that was restored from a backup: nothing that it gave out since means something else now,
and everybody is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import msgspec
import pytest

from tocsin.errors import SettingError
from tocsin.model import Channel, Column, Dataset, Parameter
from tocsin.service.tokens import mint
from tocsin.storage.store.incarnation import GAP, read_note
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

from .sparkless import SECRET, SparklessCluster, sparkless

REPORTS = Dataset("reports", (Column("n", "BIGINT"),))
CHANNEL = Channel("c", "continuous", (Parameter("t", "STRING"),), "", ("reports",), ("reports",))
FLOOD = {"t": "flood"}


def find(cluster: SparklessCluster, run: str) -> tuple[int, str, int]:
    """A result: its backend subscription, and its cursor."""
    store = cluster.store
    made, _ = store.subscriptions.subscribe("ann", "c", FLOOD, None)
    now = store.now()
    done = store.runs.commit_run(Run("c", run, now, now), [(made.backend.id, b"{}")])
    assert done is not None
    backend = store.subscriptions.get(made.id).backend
    return backend.id, backend.epoch, backend.head


async def told_id(cluster: SparklessCluster) -> str:
    """By which a broker that registers hears of the store."""
    token = mint(SECRET, "north", ["broker"], expires_s=60, now=cluster.clock.now())
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http:
        there = {"url": "http://127.0.0.1:1"}
        answer = await http.put(f"{cluster.url}/v1/brokers/north", json=there)
    return str(answer.json()["store_id"])


async def begun(directory: Path) -> str:
    async with sparkless(directory) as cluster:
        await cluster.create_dataset(REPORTS)
        cluster.store.catalog.create_channel(CHANNEL)
        find(cluster, "first")
        await cluster.publish_all("reports", [{"n": 1}])
        known_as = await told_id(cluster)
    shutil.copy(directory / "store.db", directory / "backup.db")
    return known_as


def restore(directory: Path) -> None:
    for name in ("store.db-wal", "store.db-shm"):
        (directory / name).unlink(missing_ok=True)
    shutil.copy(directory / "backup.db", directory / "store.db")


async def test_a_restored_store_gives_out_nothing_twice_and_loses_nothing_that_is_there(
    tmp_path: Path,
) -> None:
    known_as = await begun(tmp_path)
    async with sparkless(tmp_path) as cluster:
        assert await told_id(cluster) == known_as  # a restart is no restoring
        backend, epoch, head = find(cluster, "second")
        assert head == 2
        bob, _ = cluster.store.subscriptions.subscribe("bob", "c", {"t": "fire"}, None)
        sequence = cluster.store.sequence()
        await cluster.publish_all("reports", [{"n": 2}])
    restore(tmp_path)
    async with sparkless(tmp_path) as cluster:
        now_known_as = await told_id(cluster)
        assert now_known_as != known_as
        assert len(cluster.store.results.read(backend, 0, 9, 999).results) == 1
        again = find(cluster, "anew")
        assert again[0] == backend
        assert again[1] != epoch  # position 2 is another one now
        assert again[2] == head
        assert cluster.store.sequence() >= sequence + GAP / 2
        eve, _ = cluster.store.subscriptions.subscribe("eve", "c", {"t": "quake"}, None)
        assert eve.id > bob.id
        assert eve.backend.id > bob.backend.id
        assert cluster.log.ends()["reports"] > 0
    async with sparkless(tmp_path) as cluster:
        assert await told_id(cluster) == now_known_as
    restore(tmp_path)  # a second time
    async with sparkless(tmp_path) as cluster:
        assert await told_id(cluster) not in (known_as, now_known_as)


async def test_what_a_cluster_wrote_is_noted_also_when_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(tmp_path)
    async with sparkless(tmp_path) as cluster:
        find(cluster, "second")
        cluster._note()
        note = read_note(tmp_path)
        assert note == cluster.store.incarnation.seen()
        monkeypatch.setattr(cluster, "_note", lambda: None)
    restore(tmp_path)
    async with sparkless(tmp_path) as cluster:
        assert cluster.store.incarnation.seen().incarnation == 1


async def test_a_store_whose_records_lie_in_files_that_it_does_not_know_is_refused(
    tmp_path: Path,
) -> None:
    """To go on would leave a hole in the dataset, and delete what could fill it."""
    async with sparkless(tmp_path) as cluster:
        await cluster.create_dataset(REPORTS)
        await cluster.publish_all("reports", [{"n": 1}])
        cluster.store_away(REPORTS)
    shutil.copy(tmp_path / "store.db", tmp_path / "backup.db")
    async with sparkless(tmp_path) as cluster:
        await cluster.publish_all("reports", [{"n": 2}])
        cluster.store_away(REPORTS)
    restore(tmp_path)
    with pytest.raises(SettingError, match=r"begins at \d+, and its stored part ends") as told:
        async with sparkless(tmp_path):
            pass
    assert "same backup" in (told.value.hint or "")


def test_each_backend_subscription_of_a_restored_store_begins_an_epoch_of_its_own(
    tmp_path: Path,
) -> None:
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        store.catalog.create_dataset(REPORTS)
        store.catalog.create_channel(CHANNEL)
        before = store.incarnation.seen()
        for name in ("flood", "fire"):
            store.subscriptions.subscribe("ann", "c", {"t": name}, None)
        epochs = {made.backend.epoch for made in store.subscriptions.all_()}
        counters = {name: value + 1 for name, value in store.incarnation.seen().counters.items()}
        assert store.follow(msgspec.structs.replace(before, counters=counters))
        anew = {made.backend.epoch for made in store.subscriptions.all_()}
        assert len(anew) == 2
        assert not anew & epochs
