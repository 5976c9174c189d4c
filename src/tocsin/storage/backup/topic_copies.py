"""A publication log on Kafka in a backup, and topics from one.

Topics that are made here begin at offset 0, and their datasets go on at the positions that they
had: the difference is written into the topic of bases before anything else is (`log.kafka.bases`).
In the place of messages that were no records stand empty ones, so that all records keep their
positions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import msgspec
from confluent_kafka import KafkaError, Message
from msgspec import Raw

from tocsin.errors import Gone, NotFound, SettingError
from tocsin.protocol import log_line
from tocsin.protocol.backup import (
    MATCHES,
    MESSAGES,
    DatasetCut,
    LoggedMessage,
    LogKind,
    Manifest,
)
from tocsin.storage.backup import files
from tocsin.storage.backup.log_copies import Copied, files_of
from tocsin.storage.backup.progress import Progress, watched
from tocsin.storage.identity import Mark
from tocsin.storage.log.kafka import Kafka, KafkaAddress, KafkaReader, Topics
from tocsin.storage.log.kafka.bases import encode_bases
from tocsin.storage.log.segments import keys

_AT_ONCE = 10_000
_decode = msgspec.json.Decoder(LoggedMessage).decode

Produced = tuple[bytes, bytes | None, list[log_line.Header] | None]
"""A message's value, key and headers."""
_EMPTY: Produced = (b"", None, None)


class TopicSource:
    kind: LogKind = "kafka"

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._topics = Topics(address)
        self._reader = KafkaReader(address)

    def last_us(self) -> int:
        return 0  # the newest record of each topic has it

    def copy_matches(self, taken: Mapping[str, int], file: Path) -> int:
        """A channel's progress may be past records whose matches are in the topic alone."""
        topic, count = self._address.matches_topic, 0
        if self._topics.describe(topic) is None:
            return 0
        first, end = self._reader.bounds(topic)
        start = taken.get(topic, 0)
        if start < first:
            raise Gone(f"the topic {topic} has let go of what was not stored", field="matches")

        def lines() -> Iterator[bytes]:
            nonlocal count
            for line in _matches(self._reader, topic, start, end):
                count += 1
                yield line

        files.write(file, lines())
        return count

    def end(self, dataset: str) -> int:
        try:
            return self._reader.positions(dataset)[1]
        except NotFound as error:
            raise Gone(error.message, field=dataset) from None

    def copy(self, dataset: str, stored_end: int | None, end: int, folder: Path) -> Copied:
        """All that is kept: older records are there for their keys."""
        first, _ = self._reader.positions(dataset)
        stored_end = first if stored_end is None else stored_end
        if stored_end < first:
            raise Gone(f"the topic of {dataset} has let go of what was copied", field=dataset)
        records = 0

        def lines() -> Iterator[bytes]:
            nonlocal records
            for position, message in self._reader.placed(dataset, first, end):
                line = _line(position, message)
                if line is not None:
                    records += position >= stored_end
                    yield line

        files.write(folder / MESSAGES, lines())
        return Copied(first, stored_end, records)

    def close(self) -> None:
        self._reader.close()


class TopicTarget:
    """Topics with the messages of a backup."""

    def __init__(
        self, address: KafkaAddress, manifest: Manifest, owner: Mark, record_limit_bytes: int
    ) -> None:
        self._address = address
        self._manifest = manifest
        self._owner = owner
        self._record_limit_bytes = record_limit_bytes

    def restore(self, root: Path, progress: Progress) -> None:
        medium = Kafka(
            self._address, owner=self._owner, record_limit_bytes=self._record_limit_bytes
        )
        with closing(medium) as kafka:
            bases = {cut.name: self._base(cut) for cut in self._manifest.datasets}
            _fill(kafka, self._address.bases_topic, [(encode_bases(bases), None, None)])
            for cut in watched(progress, "topics of datasets", self._manifest.datasets):
                for file in files_of(self._manifest, cut):
                    files.check(root, file)
                _fill(kafka, self._address.topic(cut.name), self._messages(root, cut))
            if self._manifest.matches:
                with (root / MATCHES).open("rb") as lines:
                    matches = (_produced(_decode(line)) for line in lines)
                    _fill(kafka, self._address.matches_topic, matches)

    def look(self, cut: DatasetCut) -> tuple[int, str]:
        digest, count = hashlib.sha256(), 0
        with closing(KafkaReader(self._address)) as reader:
            for position, message in reader.placed(cut.name, cut.first, cut.end):
                line = _line(position, message)
                if line is not None:
                    digest.update(line)
                    count += position >= cut.stored_end
        return count, digest.hexdigest()

    def expected(self, cut: DatasetCut) -> str:
        (file,) = files_of(self._manifest, cut)
        return file.sha256

    def look_at_matches(self) -> tuple[int, str]:
        digest, count = hashlib.sha256(), 0
        with closing(KafkaReader(self._address)) as reader:
            topic = self._address.matches_topic
            for line in _matches(reader, topic, *reader.bounds(topic)):
                digest.update(line)
                count += 1
        return count, digest.hexdigest()

    def mark(self) -> None:
        """The prefix was claimed before anything was written."""

    def _base(self, cut: DatasetCut) -> int:
        return cut.first

    def _messages(self, root: Path, cut: DatasetCut) -> Iterator[Produced]:
        """One for each position from the first to the end."""
        position = cut.first
        with (root / "log" / cut.name / MESSAGES).open("rb") as lines:
            for line in lines:
                message = _decode(line)
                yield from (_EMPTY for _ in range(position, message.position))
                yield _produced(message)
                position = message.position + 1
        yield from (_EMPTY for _ in range(position, cut.end))


class MovedTarget(TopicTarget):
    """Topics for datasets that are Parquet up to their ends. They begin behind these: first with an
    empty message for each request that the log knew by its key, which is known by it here, too."""

    def __init__(
        self, address: KafkaAddress, manifest: Manifest, owner: Mark, record_limit_bytes: int
    ) -> None:
        super().__init__(address, manifest, owner, record_limit_bytes)
        for cut in manifest.datasets:
            if cut.log_records:
                raise SettingError(
                    f"{cut.log_records} records of dataset {cut.name} are in a log of files, whose"
                    " positions Kafka cannot give",
                    field="log",
                    hint="tocsin migrate moves a system to Kafka: it stores these records first",
                )

    def look(self, cut: DatasetCut) -> tuple[int, str]:
        with closing(KafkaReader(self._address)) as reader:
            _, end = reader.positions(cut.name)
            headers = [message.headers() for _, message in reader.placed(cut.name, cut.end, end)]
        parts = map(log_line.decode_headers, headers)
        return 0, _hash_of(part.key for part in parts if part is not None)

    def expected(self, cut: DatasetCut) -> str:
        return _hash_of(self._keys[cut.name])

    def restore(self, root: Path, progress: Progress) -> None:
        self._keys = {cut.name: _keys_of(root, cut) for cut in self._manifest.datasets}
        super().restore(root, progress)

    def _base(self, cut: DatasetCut) -> int:
        return cut.end

    def _messages(self, root: Path, cut: DatasetCut) -> Iterator[Produced]:
        for key in self._keys[cut.name]:
            yield b"", None, log_line.encode_headers(log_line.RequestPart(key, 0, 1))


def _fill(kafka: Kafka, topic: str, messages: Iterable[Produced]) -> None:
    """Behind those of them that are there from an earlier attempt."""
    kafka.topics.ensure(topic, kafka.largest_bytes)
    _, end = kafka.reader.bounds(topic)
    left = islice(messages, end, None)
    while batch := list(islice(left, _AT_ONCE)):
        _produce(kafka, topic, batch)


def _produce(kafka: Kafka, topic: str, batch: Sequence[Produced]) -> None:
    """Returns when all of it is durable."""
    outcomes: list[KafkaError | None] = []
    for value, key, headers in batch:
        kafka.produce(topic, value, key, headers, lambda error, _: outcomes.append(error))
    kafka.flush()
    for error in outcomes:
        if error is not None:
            raise kafka.failure(error)
    if len(outcomes) < len(batch):
        raise kafka.unconfirmed()


def _line(position: int, message: Message) -> bytes | None:
    """None: it is no record."""
    value = message.value()
    if value is None or log_line.message_body(position, value) is None:
        return None
    try:
        msgspec.json.decode(value)
    except msgspec.DecodeError:
        return None
    part = log_line.decode_headers(message.headers())
    key = message.key()
    kept = key.encode() if isinstance(key, str) else key
    placed = None if part is None else (part.key, part.number, part.parts)
    # Somebody else may have written blanks as newlines.
    logged = LoggedMessage(position, Raw(value.replace(b"\n", b" ")), kept, placed)
    return msgspec.json.encode(logged) + b"\n"


def _matches(reader: KafkaReader, topic: str, first: int, end: int) -> Iterator[bytes]:
    """Numbered from 0, as they are in a topic that has no others."""
    number = 0
    for message in reader.messages(topic, first, end):
        value = message.value() or b""
        try:
            msgspec.json.decode(value)
        except msgspec.DecodeError:  # somebody else wrote it
            continue
        logged = LoggedMessage(number, Raw(value.replace(b"\n", b" ")))
        number += 1
        yield msgspec.json.encode(logged) + b"\n"


def _produced(message: LoggedMessage) -> Produced:
    part = None if message.part is None else log_line.RequestPart(*message.part)
    return bytes(message.value), message.key, part and log_line.encode_headers(part)


def _keys_of(root: Path, cut: DatasetCut) -> list[str]:
    try:
        text = (root / "log" / cut.name / keys.NAME).read_bytes()
    except FileNotFoundError:
        return []
    return list(msgspec.json.decode(text, type=dict[str, keys.Place]))


def _hash_of(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\n")
    return digest.hexdigest()
