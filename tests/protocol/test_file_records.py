"""Records in files and on Kafka: today's code writes the bytes of the golden examples, and reads
them. A data directory, a topic or a trace that an older version wrote must stay readable: when a
record changes, raise its version, keep its old example, and add one of the new version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from msgspec import Raw
from pyspark.sql import SparkSession

from lab.trace.made import SMALL, trace_of
from tocsin.lab.trace import EventTrace, RequestTrace, journal, read_trace
from tocsin.lab.trace.events import RECORD as EVENT
from tocsin.lab.trace.writing import EventWriter
from tocsin.model import Column, Dataset
from tocsin.protocol import backup, columns, consumer_log, log_line, match, trace
from tocsin.spark.log_lines import are_all_there, keep_positions, keep_records
from tocsin.spark.real_time.streaming import match_columns
from tocsin.spark.records import parse
from tocsin.storage.log import open_log, open_reader
from tocsin.storage.log.port import Appended

GOLDEN = Path(__file__).parent / "golden"

Line = tuple[int, bytes, bytes | None]
REQUESTS: list[tuple[str | None, list[Line]]] = [
    (None, [(1763258400000000, b'{"type":"flood","severity":3}', None)]),
    (
        "5e1f",
        [
            (1763258400000001, b'{"type":"fire"}', b'{"note":"hot"}'),
            (1763258400000002, b'{"type":"flood"}', None),
            (1763258400000003, b"{}", b'{"x":"}"}'),
        ],
    ),
    ("a-key", [(1763258400000004, b'{"type":"storm"}', None)]),
]
LAST: Line = (1763258400000005, b'{"type":"quake"}', None)
FILLER_BYTES = 200
REPORTS = Dataset("reports", (Column("type", "STRING"), Column("severity", "INT")), open=True)
TYPES = ["flood", "fire", "flood", None, "storm", "quake"]


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def golden_lines(name: str) -> list[bytes]:
    return golden(name).splitlines()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A publication log whose one segment is the golden one."""
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / f"{0:020d}.log").write_bytes(golden("log_line.v1.log"))
    return tmp_path


def test_a_segment_is_written_as_ever() -> None:
    written = b""
    for key, lines in REQUESTS:
        head = log_line.encode_head(log_line.RequestHead(len(lines), key))
        for taken_us, record, extra in lines:
            written += log_line.encode(len(written), taken_us, record, extra, head)
            head = b""
    written += log_line.encode_fillers(len(written), FILLER_BYTES, 2) or b""
    written += log_line.encode(len(written), *LAST)
    assert written == golden(f"log_line.v{log_line.VERSION}.log")


def test_a_log_that_an_older_version_wrote_is_read_and_continued(directory: Path) -> None:
    raw = golden("log_line.v1.log")
    with open_log(directory, segment_bytes=1 << 20) as log:
        assert log.open_dataset("reports") == len(raw)
        lines = list(open_reader(str(directory)).lines("reports", 0, len(raw)))
        contents = [log_line.decode_content(body) for _, body in lines]
        assert [(c.taken_us, bytes(c.record), bytes(c.extra) or None) for c in contents] == [
            *(line for _, request in REQUESTS for line in request),
            LAST,
        ]
        assert [log_line.taken_us(body) for _, body in lines] == [c.taken_us for c in contents]
        again = log.append("reports", [b"{}"], key="5e1f").result()
        assert again == Appended(72, 289, again=True)
        assert log.append("reports", [b"{}"]).result().first == len(raw)


def test_messages_of_a_topic_are_written_and_read_as_ever() -> None:
    examples = [msgspec.json.decode(line) for line in golden_lines("kafka_message.v1.jsonl")]
    written: list[dict[str, Any]] = []
    for key, lines in REQUESTS:
        for number, line in enumerate(lines):
            part = None if key is None else log_line.RequestPart(key, number, len(lines))
            headers = [] if part is None else log_line.encode_headers(part)
            assert log_line.decode_headers(headers) == part
            texts = {name: text.decode() for name, text in headers if isinstance(text, bytes)}
            value = log_line.encode_message(*line)
            assert log_line.message_taken_us(value) == line[0]
            body = log_line.message_body(7, value)
            assert body == log_line.encode_body(7, *line)
            written.append({"value": value.decode(), "headers": texts})
    assert written == examples


@pytest.mark.spark
def test_spark_reads_lines_and_messages_as_the_log_does(spark: SparkSession) -> None:
    raw = golden("log_line.v1.log")
    texts = spark.createDataFrame(pa.table({"value": raw.decode().splitlines()}))
    assert are_all_there(texts, 0, len(raw))
    assert not are_all_there(texts.limit(3), 0, len(raw))
    rows = parse(keep_positions(texts, 0, len(raw)), REPORTS).orderBy(columns.POSITION).collect()
    assert [row["type"] for row in rows] == TYPES
    assert [row[columns.POSITION] for row in rows] == [0, 72, 167, 228, 289, 562]
    assert rows[1][columns.EXTRA] == {"note": "hot"}
    values = [msgspec.json.decode(line)["value"] for line in golden_lines("kafka_message.v1.jsonl")]
    values.insert(2, '{"somebody":"else"}')
    table = pa.table({"value": pa.array([v.encode() for v in values]), "offset": range(6)})
    messages = parse(keep_records(spark.createDataFrame(table)), REPORTS)
    rows = messages.orderBy(columns.POSITION).collect()
    assert [row["type"] for row in rows] == TYPES[:-1]
    assert [row[columns.POSITION] for row in rows] == [0, 1, 3, 4, 5]


def test_a_match_is_read_as_ever() -> None:
    decoded = match.decode_match(golden(f"match.v{match.VERSION}.jsonl"))
    assert (decoded.channel, decoded.backend, decoded.position) == ("alerts", 7, 480)
    assert bytes(decoded.payload) == b'{"type":"flood","severity":3}'


@pytest.mark.spark
def test_spark_writes_a_match_as_ever(spark: SparkSession) -> None:
    payload = '{"type":"flood","severity":3}'
    row = {columns.CHANNEL: ["alerts"], columns.BACKEND: [7]}
    row |= {columns.ORDER: [480], columns.PAYLOAD: [payload]}
    matches = spark.createDataFrame(pa.table(row)).select(*match_columns())
    (message,) = matches.collect()
    assert message.key == "7"
    assert f"{message.value}\n".encode() == golden(f"match.v{match.VERSION}.jsonl")


def test_records_of_a_consumer_log_are_written_and_read_as_ever() -> None:
    records = [
        consumer_log.result(41, 1763258400.25, b'{"type":"flood"}'),
        consumer_log.too_large(42, 1763258400.5, 15),
        consumer_log.reference(43, 1763258400.75, "alerts", 12),
        consumer_log.head(44),
        consumer_log.expired(40),
    ]
    examples = golden_lines(f"consumer_log.v{consumer_log.VERSION}.jsonl")
    assert [consumer_log.encode(record) for record in records] == examples
    decoded = [consumer_log.decode_log_record(example) for example in examples]
    assert [consumer_log.encode(record) for record in decoded] == examples
    assert [record.is_result for record in decoded] == [True, True, True, False, False]
    assert consumer_log.encode_key(41) == b"41"


def test_a_request_for_missing_results_is_written_and_read_as_ever() -> None:
    missing = consumer_log.MissingResults(9, 41, 44)
    (example,) = golden_lines("missing_results.v1.jsonl")
    assert consumer_log.encode(missing) == example
    assert consumer_log.decode_missing_results(example) == missing


def test_results_of_a_topic_are_written_as_ever() -> None:
    arguments, at = Raw(b'{"kind":"flood"}'), 1763258400.25
    results = [
        consumer_log.TopicResult("alerts", 7, arguments, 41, at, Raw(b'{"type":"flood"}')),
        consumer_log.TopicResult("alerts", 7, arguments, 42, at, consumer_log.NULL, 16),
    ]
    examples = golden_lines("topic_result.v1.jsonl")
    assert [consumer_log.encode(result) for result in results] == examples


def test_the_progress_of_a_delivery_is_written_and_read_as_ever() -> None:
    progress = consumer_log.Progress(1200, {"seen": 3.0, "mean": 1.5})
    (example,) = golden_lines("delivery_progress.v1.jsonl")
    assert consumer_log.encode(progress) == example
    assert consumer_log.decode_progress(example) == progress


EVENTS = trace_of(*SMALL).records
ABOUT = trace.About(recorded_at=1763258400.0, policy="lsc", budget_bytes=1000)


def test_records_of_a_trace_are_streamed_as_ever() -> None:
    streamed = b"".join(trace.RECORD.pack(*event.item()) for event in EVENTS)
    assert streamed == golden(f"trace_record.v{trace.VERSION}.bin")
    np.testing.assert_array_equal(np.frombuffer(streamed, EVENT), EVENTS)
    assert trace.MEDIA_TYPE == "application/vnd.tocsin.trace; record=80"


def test_a_journal_begins_as_ever(tmp_path: Path) -> None:
    EventWriter(tmp_path / "journal", ABOUT)
    written, example = (tmp_path / "journal").read_bytes(), golden("trace_journal.v1")
    assert example.startswith(written)
    with (GOLDEN / "trace_journal.v1").open("rb") as file:
        first, *_ = journal.blocks(file, GOLDEN)
    label = msgspec.json.decode(first.content, type=trace.Label)
    assert label == trace.Label("events", trace.VERSION, ABOUT)


@pytest.mark.parametrize("name", ["trace_journal.v1", "trace_events.v1.parquet"])
def test_a_recording_of_an_older_version_is_read(name: str) -> None:
    read = read_trace(GOLDEN / name)
    assert isinstance(read, EventTrace)
    np.testing.assert_array_equal(read.records, EVENTS)
    assert (read.about.recorded_at, read.about.policy) == (ABOUT.recorded_at, ABOUT.policy)
    assert read.about.finished == name.endswith(".parquet")


def test_a_request_trace_of_an_older_version_is_read() -> None:
    read = read_trace(GOLDEN / "trace_requests.v1.parquet")
    assert isinstance(read, RequestTrace)
    assert list(zip(read.at_s, read.object, read.size_bytes, strict=True)) == [
        (0.0, 1, 10),
        (0.5, 2, 20),
        (2.0, 1, 10),
    ]


def test_a_manifest_of_an_older_version_is_read_and_written_the_same() -> None:
    text = golden("backup_manifest.v1")
    manifest = backup.decode_manifest(text)
    assert manifest.format == backup.FORMAT == 1
    assert backup.encode_manifest(manifest) == text
    assert manifest.datasets[0].stored_end == 200


def test_a_message_in_a_backup_is_as_ever() -> None:
    """Its value is the topic's, byte for byte."""
    first, second = golden_lines("backup_messages.v1")
    message = msgspec.json.decode(first, type=backup.LoggedMessage)
    assert (message.position, message.part) == (120, ("5e1f", 0, 2))
    assert log_line.message_body(120, bytes(message.value)) is not None
    for line in (first, second):
        assert msgspec.json.encode(msgspec.json.decode(line, type=backup.LoggedMessage)) == line
