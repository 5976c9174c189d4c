"""Whether the places of a new system are empty: a backup is restored over nobody's data."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tocsin.errors import SettingError
from tocsin.protocol.backup import Source
from tocsin.storage.backup.places import Places
from tocsin.storage.content import open_medium
from tocsin.storage.identity import Mark, read_mark
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.store import dump
from tocsin.storage.tables.address import TableAddress
from tocsin.storage.tables.claim import mark_at
from tocsin.storage.tables.place import Place


def require_empty(places: Places, source: Source) -> None:
    """SettingError that names whose a place is, if it is somebody's. Nothing is changed."""
    data = places.data
    _refuse(f"the data directory {data}", read_mark(data), source, "data")
    for path in (data / "datasets", places.store_file):
        if path is not None and path.exists():
            raise SettingError(
                f"{path} is there already, and a backup is restored into an empty place",
                field="data",
                hint="name a directory that does not exist yet: --data DIRECTORY",
            )
    if places.store_file is None:
        dump.require_unused(places.store)
    if places.logs_in_files:
        _require_no_segments(Path(places.log), source)
    else:
        _require_no_topics(KafkaAddress.parse(places.log), source)
    if places.tables:
        _require_no_tables(TableAddress.parse(places.tables), source)
    medium = open_medium(places.attachments, data)
    _refuse(f"the folder of attachments {medium.shown}", medium.mark(), source, "attachments")
    if next(iter(medium.kept()), None) is not None:
        raise SettingError(
            f"there are attachments in {medium.shown} already",
            field="attachments",
            hint="name another directory, or another folder of the bucket",
        )


def _require_no_segments(log: Path, source: Source) -> None:
    _refuse(f"the log in {log}", read_mark(log), source, "log")
    if any(log.glob("*/*.log")):
        raise SettingError(
            f"there is a log in {log} already",
            field="log",
            hint="name a directory that does not exist yet",
        )


def _require_no_topics(address: KafkaAddress, source: Source) -> None:
    from tocsin.storage.log.kafka import KafkaReader, Topics

    where = f"the prefix {address.prefix} of Kafka at {address.shown}"
    topics = Topics(address)
    if topics.describe(address.owner_topic) is not None:
        with closing(KafkaReader(address)) as reader:
            first, end = reader.bounds(address.owner_topic)
            for message in reader.messages(address.owner_topic, first, min(end, first + 1)):
                _refuse(where, Mark.decode(message.value() or b""), source, "log")
    others = topics.beginning_with(address.topic(""))
    if others:
        raise SettingError(
            f"{where} has a topic {others[0]} already",
            field="log",
            hint="name a prefix that nobody uses",
        )


def _require_no_tables(address: TableAddress, source: Source) -> None:
    place = Place(address)
    _refuse(f"the folder of tables {address.shown}", mark_at(place), source, "tables")
    if place.folders():
        raise SettingError(
            f"there is something at {address.shown} already",
            field="tables",
            hint="name a folder that nobody uses",
        )


def _refuse(what: str, mark: Mark | None, source: Source, field: str) -> None:
    if mark is not None:
        raise SettingError(
            f"{what} belongs to {mark}, and the backup is of {source.store} (identity"
            f" {source.id[:8]}): a backup is restored into an empty place",
            field=field,
            hint="name one that nobody uses; nothing was changed",
        )
