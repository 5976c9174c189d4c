"""A record in the log always fits its dataset; one that does not is told and kept as a letter."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tocsin.cluster.intake import Intake
from tocsin.errors import InvalidInput, NotFound, Unavailable, Unconfirmed
from tocsin.intake.dead_letters import DEAD_LETTERS
from tocsin.intake.formats import RawRecord, Unreadable
from tocsin.intake.keys import request_key
from tocsin.intake.validator import RecordValidator
from tocsin.model import Column, Dataset
from tocsin.protocol.publishing import Rejection
from tocsin.storage.log import Appended, open_log
from tocsin.storage.log.segments import read_lines

CLOSED = Dataset(
    name="reports",
    columns=(Column("id", "STRING"), Column("severity", "INT"), Column("at", "TIMESTAMP")),
    primary_key=("id",),
)
OPEN = msgspec.structs.replace(CLOSED, name="open_reports", open=True)
DATASETS = {one.name: one for one in (CLOSED, OPEN, DEAD_LETTERS)}


def fit(dataset: Dataset, fields: dict[str, Any], *, textual: bool = False) -> Any:
    return RecordValidator(dataset, limit_bytes=200).encode(RawRecord(7, fields, textual))


def test_fitting_record_is_kept_in_canonical_form() -> None:
    record, extra = fit(CLOSED, {"id": "a", "severity": 3.0, "at": "2026-01-02T03:04:05+01:00"})
    assert msgspec.json.decode(record) == {
        "id": "a",
        "severity": 3,
        "at": "2026-01-02T02:04:05.000000Z",
    }
    assert extra is None


def test_closed_dataset_refuses_an_unknown_field_by_name() -> None:
    refused = fit(CLOSED, {"id": "a", "mood": "grim"})
    assert isinstance(refused, Rejection)
    assert (refused.line, refused.field) == (7, "mood")


def test_open_dataset_keeps_unknown_fields_apart() -> None:
    record, extra = fit(OPEN, {"id": "a", "mood": "grim", "tags": [1, 2]})
    assert msgspec.json.decode(record) == {"id": "a"}
    assert msgspec.json.decode(extra) == {"mood": "grim", "tags": "[1,2]"}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"id": "a", "severity": "high"}, "severity"),
        ({"id": "a", "severity": 2**40}, "severity"),
        ({"id": "a", "at": "yesterday"}, "at"),
        ({"severity": 1}, "id"),
        ({"id": None}, "id"),
    ],
)
def test_record_that_does_not_fit_is_refused_with_its_field(
    fields: dict[str, Any], field: str
) -> None:
    refused = fit(CLOSED, fields)
    assert isinstance(refused, Rejection)
    assert refused.field == field


def test_csv_text_is_read_by_type_and_an_empty_value_is_null() -> None:
    record, _ = fit(CLOSED, {"id": "a", "severity": "12", "at": ""}, textual=True)
    assert msgspec.json.decode(record) == {"id": "a", "severity": 12}


def test_record_over_the_limit_is_refused() -> None:
    assert isinstance(fit(CLOSED, {"id": "x" * 300}), Rejection)


async def test_publish_answers_when_good_records_and_letters_are_in_the_log(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=1 << 20) as log:
        for name in DATASETS:
            log.open_dataset(name)
        intake = Intake(log, DATASETS.__getitem__, 1000)
        records: list[RawRecord | Unreadable] = [
            RawRecord(1, {"id": "a", "severity": 1}),
            RawRecord(2, {"id": "b", "severity": "x"}),
            Unreadable(3, "garbage", "not JSON"),
        ]
        published = await intake.publish("reports", records, publisher="ann", source="http")
        assert (published.accepted, published.rejected) == (1, 2)
        assert [(e.line, e.field) for e in published.errors] == [(2, "severity"), (3, None)]
        ends = log.ends()
        assert published.end == ends["reports"]
        letters = [
            msgspec.json.decode(body)["r"]
            for _, body in read_lines(tmp_path, "dead_letters", 0, ends["dead_letters"])
        ]
        assert [letter["record"] for letter in letters] == ['{"id":"b","severity":"x"}', "garbage"]
        assert letters[0]["publisher"] == "ann"
        assert letters[0]["reason"]


async def test_unknown_dataset_takes_nothing(tmp_path: Path) -> None:
    def unknown(name: str) -> Dataset:
        raise NotFound(f"there is no dataset {name}", field="name")

    with open_log(tmp_path, segment_bytes=1 << 20) as log, pytest.raises(NotFound):
        await Intake(log, unknown, 1000).publish("no", [], publisher="ann", source="http")


async def test_the_same_key_gives_the_same_answer_and_appends_nothing_more(tmp_path: Path) -> None:
    records: list[RawRecord | Unreadable] = [
        RawRecord(1, {"id": "a", "severity": 1}),
        RawRecord(2, {"id": "b", "severity": "x"}),
    ]
    answers = []
    for _ in range(2):
        with open_log(tmp_path, segment_bytes=1 << 20) as log:
            for name in DATASETS:
                log.open_dataset(name)
            intake = Intake(log, DATASETS.__getitem__, 1000)
            for _ in range(2):
                answers.append(
                    await intake.publish("reports", records, publisher="a", source="s", key="5e1f")
                )
                await intake.publish("reports", records[:1], publisher="a", source="s")
            ends = log.ends()
    assert answers == [answers[0]] * 4
    lines = list(read_lines(tmp_path, "reports", 0, ends["reports"]))
    assert len(lines) == 1 + 4  # the keyed one, and those without a key
    letters = list(read_lines(tmp_path, "dead_letters", 0, ends["dead_letters"]))
    assert len(letters) == 1


async def test_dead_letters_of_a_publication_to_the_dead_letters_are_kept(tmp_path: Path) -> None:
    records = [RawRecord(1, {"reason": "mine"}), RawRecord(2, {"nothing": 1})]
    with open_log(tmp_path, segment_bytes=1 << 20) as log:
        log.open_dataset("dead_letters")
        intake = Intake(log, DATASETS.__getitem__, 1000)
        for _ in range(2):
            await intake.publish("dead_letters", records, publisher="a", source="s", key="5e1f")
        end = log.ends()["dead_letters"]
        assert len(list(read_lines(tmp_path, "dead_letters", 0, end))) == 2


def test_a_request_is_known_by_its_key_and_all_that_it_says() -> None:
    known = request_key("k", "ann", "json", b"{}")
    assert known == request_key("k", "ann", "json", b"{}")
    others = [("l", "ann", "json", b"{}"), ("k", "bob", "json", b"{}"), ("k", "ann", "csv", b"{}")]
    for other in (*others, ("k", "ann", "json", b"[]")):
        assert request_key(*other) != known
    for wrong in ("", "x" * 256):
        with pytest.raises(InvalidInput) as refused:
            request_key(wrong, "ann", "json", b"{}")
        assert refused.value.field == "Idempotency-Key"


AWAY, LOST, TAKEN = Unavailable("Kafka is away"), Unconfirmed("no word of it"), Appended(0, 1)


class ToldLog:
    """A log of which it is told what becomes of good records and of dead letters."""

    def __init__(self, **outcomes: Appended | Exception) -> None:
        self._outcomes = outcomes

    def ends(self) -> dict[str, int]:
        return {}

    def append(self, dataset: str, records: Any, key: str | None) -> Future[Appended]:
        future: Future[Appended] = Future()
        outcome = self._outcomes[dataset]
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
        return future


@pytest.mark.parametrize(
    ("records", "letters", "in_doubt"),
    [
        (AWAY, AWAY, False),
        (TAKEN, AWAY, True),
        (AWAY, TAKEN, True),
        (LOST, AWAY, True),
        (AWAY, LOST, True),
    ],
)
async def test_a_publication_of_which_a_part_may_be_taken_is_in_doubt(
    records: Appended | Exception, letters: Appended | Exception, in_doubt: bool
) -> None:
    log: Any = ToldLog(reports=records, dead_letters=letters)
    intake = Intake(log, DATASETS.__getitem__, 200)
    given = [RawRecord(1, {"id": "a"}), RawRecord(2, {"mood": "grim"})]
    with pytest.raises(Unavailable) as raised:
        await intake.publish("reports", given, publisher="ann", source="http")
    assert isinstance(raised.value, Unconfirmed) == in_doubt
