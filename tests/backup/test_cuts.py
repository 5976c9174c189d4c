"""Where a dataset's log ends in a backup: with what its feed has noted, and the keys up to it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from backup.system import REPORTS, Silent, back_up, places
from cluster.sparkless import sparkless
from tocsin.intake.formats import RawRecord
from tocsin.model import Dataset, KafkaSource
from tocsin.storage.backup.log_copies import SegmentSource
from tocsin.storage.backup.making import Backup
from tocsin.storage.backup.restoring import Restore
from tocsin.storage.log import PublicationLog, open_log
from tocsin.storage.store.feeds import Place
from tocsin.storage.store.store import Store


async def test_keys_of_what_is_behind_the_cut_are_not_known_after_a_restore(tmp_path: Path) -> None:
    """Who sends that again has it taken."""
    async with sparkless(tmp_path) as cluster:
        await cluster.create_dataset(REPORTS)

        async def publish(key: str) -> None:
            records = [RawRecord(1, {"n": 1})]
            await cluster.publish("reports", records, publisher="ann", source="", key=key)

        await publish("within")
        source = SegmentSource(tmp_path / "log")
        end = source.end("reports")
        await publish("behind")
        cluster.log.roll("reports")
        copied = source.copy("reports", None, end, tmp_path / "copy")
    assert copied.records == 1
    assert msgspec.json.decode((tmp_path / "copy" / "keys").read_bytes()).keys() == {"within"}
    segments = sorted(path.stat().st_size for path in (tmp_path / "copy").glob("*.log"))
    assert segments == [end]


def test_a_log_ends_where_its_feed_had_taken_what_the_backup_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or records of the topic would be taken twice, or never."""
    live = tmp_path / "live"
    live.mkdir()
    with Store.open(f"sqlite:///{live}/store.db") as store:
        store.catalog.create_dataset(Dataset("fed", (), source=KafkaSource("topic")))
        with log_of(live) as log:
            log.open_dataset("fed")
            taken = 0

            def take() -> None:
                nonlocal taken
                store.feeds.put("fed", "id", {0: Place(taken, taken + 1)})
                log.append("fed", [b"{}"], f"key-{taken}").result()
                taken += 1

            take()
            end_of, calls = SegmentSource.end, 0

            def end(source: SegmentSource, dataset: str) -> int:
                """The feed goes on while the end is looked for, twice."""
                nonlocal calls
                calls += 1
                if calls <= 2:
                    take()
                return end_of(source, dataset)

            monkeypatch.setattr(SegmentSource, "end", end)
            stored = Backup._copy_stored

            def copy_stored(backup: Backup, contents: object) -> None:
                stored(backup, contents)  # type: ignore[arg-type]
                take()  # after the store was read

            monkeypatch.setattr(Backup, "_copy_stored", copy_stored)
            manifest = back_up(live, tmp_path / "backup")
    assert calls == 3
    (cut,) = manifest.datasets
    assert cut.log_records == taken == 4
    Restore(tmp_path / "backup", places(tmp_path / "there"), Silent()).run()
    with Store.open(f"sqlite:///{tmp_path}/there/store.db") as store:
        assert store.feeds.places("fed", "id") == {0: Place(3, 4)}


def log_of(data: Path) -> PublicationLog:
    return open_log(data / "log", segment_bytes=10_000)
