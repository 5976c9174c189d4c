"""A backup of a system that runs, restored elsewhere: what was acknowledged is there, and who comes
back gets what was missed."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from backup.system import (
    PHOTO,
    REPORTS,
    ROUTED,
    acknowledge,
    back_up,
    find,
    furnish,
    missed,
    records,
    restore,
    subscribe,
)
from cluster.sparkless import SparklessCluster, sparkless
from tocsin.intake.formats import RawRecord
from tocsin.storage.backup.making import Backup
from tocsin.storage.content import open_content
from tocsin.storage.identity import read_mark


async def publish_until(cluster: SparklessCluster, stop: asyncio.Event, acked: list[int]) -> None:
    for n in itertools.count(1000):
        if stop.is_set():
            return
        await cluster.publish_all("reports", [{"n": n}])
        acked.append(n)


async def send_again(cluster: SparklessCluster, key: str) -> None:
    done = await cluster.publish(
        "reports", [RawRecord(1, {"n": 77})], publisher="ann", source="test", key=key
    )
    assert done.accepted == 1


async def test_what_was_acknowledged_before_a_backup_is_in_it_and_who_returns_misses_nothing(
    tmp_path: Path,
) -> None:
    live, root, elsewhere = tmp_path / "live", tmp_path / "backup", tmp_path / "elsewhere"
    live.mkdir()
    acked: list[int] = []
    async with sparkless(live) as cluster:
        await furnish(cluster)
        ann = subscribe(cluster, "ann")
        bob = cluster.store.subscriptions.subscribe("bob", "dataset/alarms", {"where": ""}, None)[0]
        find(cluster, ann, b'{"n":1}')
        acknowledge(cluster, ann)
        find(cluster, ann, b'{"n":2}')
        await send_again(cluster, "early")
        cluster.log.roll("reports")  # its key is in a file now
        await send_again(cluster, "late")
        stop = asyncio.Event()
        publishing = asyncio.create_task(publish_until(cluster, stop, acked))
        while len(acked) < 5:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        before = list(acked)
        manifest = await asyncio.to_thread(back_up, live, root)
        during = len(acked) - len(before)
        find(cluster, ann, b'{"n":3}')  # later than the backup
        stop.set()
        await publishing
        channel = cluster.store.catalog.channel("c")
        known_as, there = cluster.store.shown_id, records(cluster, REPORTS)
        epochs = {cluster.store.subscriptions.get(id).backend.epoch for id in (ann, bob.id)}
    assert during > 0, "nobody waited for the backup"
    assert not (root / "started.json").exists()

    compared = restore(root, elsewhere)
    assert all(part.equal for part in compared)
    counts = {(part.part, part.name): part.restored_count for part in compared}
    assert counts["table", "results"] == 2
    assert counts["attachments", ""] == 1
    assert counts["stored", "alarms"] == 5
    assert read_mark(elsewhere) is not None
    assert {cut.name for cut in manifest.datasets} >= {"reports", "alarms", "dead_letters"}

    async with sparkless(elsewhere) as cluster:
        now = records(cluster, REPORTS)
        assert now == there[: len(now)]  # no hole, and nothing that is not there
        assert set(before) <= set(now)
        assert records(cluster, ROUTED) == list(range(5))
        assert [result.payload for result in missed(cluster, ann)] == [b'{"n":2}']
        assert cluster.store.catalog.channel("c") == channel
        assert cluster.store.grants.roles() == {"watch": True}
        assert cluster.store.shown_id != known_as
        for id in (ann, bob.id):  # the logs went back too, and with them positions of filters
            assert cluster.store.subscriptions.get(id).backend.epoch not in epochs
        content = open_content("", elsewhere)
        assert [b"".join(content.read(kept.id)) for kept in content.kept()] == [PHOTO]
        for key in ("early", "late"):
            await send_again(cluster, key)
        assert records(cluster, REPORTS) == now  # sent again, and taken once
        find(cluster, ann, b'{"n":4}')
        payloads = [result.payload for result in missed(cluster, ann)]
        assert payloads == [b'{"n":2}', b'{"n":4}']
        await cluster.publish_all("reports", [{"n": -1}])
        assert records(cluster, REPORTS) == [*now, -1]


async def test_files_that_leave_while_they_are_copied_begin_a_new_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = tmp_path / "live"
    live.mkdir()
    async with sparkless(live) as cluster:
        await furnish(cluster)
        copied, rounds = Backup._copy_stored, 0

        def changed(backup: Backup, contents: object) -> None:
            """What a slow copy would meet: merged files are deleted, and the log's part too."""
            nonlocal rounds
            rounds += 1
            copied(backup, contents)  # type: ignore[arg-type]
            if rounds == 1:
                cluster.store_away(REPORTS)

        monkeypatch.setattr(Backup, "_copy_stored", changed)
        await asyncio.to_thread(back_up, live, tmp_path / "backup")
        assert rounds == 2
    restore(tmp_path / "backup", tmp_path / "elsewhere")
    async with sparkless(tmp_path / "elsewhere") as cluster:
        assert records(cluster, REPORTS) == list(range(25))
