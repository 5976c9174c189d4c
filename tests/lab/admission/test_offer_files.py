"""The files of the paper's authors: read, written, and told by line and column when wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.errors import InvalidInput
from tocsin.lab.workloads.offers import CrowdSettings, PaperSettings, crowd_offers, paper_offers
from tocsin.lab.workloads.offers.crowd import crowd_subscriptions
from tocsin.lab.workloads.offers.files import (
    read_records,
    read_subscriptions,
    write_records,
    write_subscriptions,
)
from tocsin.lab.workloads.offers.vocabulary import Vocabulary

AUTHORS = Path(__file__).parents[2] / "policies" / "data" / "cs237_test1000_1.csv"


def test_authors_file_is_read_and_written_alike(tmp_path: Path) -> None:
    settings = PaperSettings(records=1_000, file=str(AUTHORS))
    workload = paper_offers(settings, seed=1)
    assert workload.waiting.mean() == 1.527
    assert workload.producer[:7].tolist() == [1, 1, 1, 1, 1, 0, 1]
    write_records(workload, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == AUTHORS.read_bytes()


def test_crowd_survives_its_files(tmp_path: Path) -> None:
    settings = CrowdSettings(records=500, consumers=50)
    workload = crowd_offers(settings, 1)
    write_records(workload, tmp_path / "records.csv")
    write_subscriptions(
        settings.vocabulary, crowd_subscriptions(settings, 1), tmp_path / "subscriptions.csv"
    )
    again = read_records(tmp_path / "records.csv", settings.vocabulary)
    assert (again.values == workload.values[workload.content]).all()
    assert (again.producer == workload.producer).all()
    subscriptions = read_subscriptions(tmp_path / "subscriptions.csv", settings.vocabulary)
    assert subscriptions == crowd_subscriptions(settings, 1)


def test_lines_may_end_as_windows_ends_them(tmp_path: Path) -> None:
    (tmp_path / "records.csv").write_bytes(b"1,10001\r\n0, 00110\r\n")
    found = read_records(tmp_path / "records.csv", Vocabulary())
    assert found.producer.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "has no records"),
        (b"1,10001\n0,001", "line 2, column 2 (bitmap): '001' has 3 bits, not 5"),
        (b"1,10001\n0,", "line 2, column 2 (bitmap)"),
        (b"1,10001\n0", "line 2 has 1 columns"),
        (b"1,10001,7\n", "line 1 has 3 columns"),
        (b"1,10001\n\n0,00110\n", "line 2 is empty"),
        (b"x,10001\n", "line 1, column 1 (producer): 'x' is no number of a producer"),
        (b"-1,10001\n", "line 1, column 1 (producer)"),
        (b"1,10001\n1,1000Z\n", "line 2, column 2 (bitmap): the discount"),
        (b"1,10001\n1,00111\n", "line 2, column 2 (bitmap): the discount in '00111' is 3"),
        (b"1,10001\n\xff\xfe\x00\n", "line 2 is no text"),
        (b"producer,bitmap\n", "line 1, column 1 (producer)"),
    ],
)
def test_wrong_file_is_told_by_line_and_column(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "records.csv"
    file.write_bytes(content)
    with pytest.raises(InvalidInput) as error:
        read_records(file, Vocabulary())
    assert told in error.value.message
    assert str(file) in error.value.message


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "has no subscriptions"),
        ("S0,10001\n,10001\n", "line 2, column 1 (consumer)"),
        ("S0,1*001\n", "line 1, column 2 (bitmap): the food"),
    ],
)
def test_wrong_subscriptions_are_told_by_line_and_column(
    tmp_path: Path, content: str, told: str
) -> None:
    file = tmp_path / "subscriptions.csv"
    file.write_text(content)
    with pytest.raises(InvalidInput) as error:
        read_subscriptions(file, Vocabulary())
    assert told in error.value.message


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        read_records(tmp_path / "none.csv", Vocabulary())


def test_file_of_another_length_than_expected_is_refused() -> None:
    with pytest.raises(InvalidInput, match="has 1000 records, not 500"):
        paper_offers(PaperSettings(records=500, file=str(AUTHORS)), seed=1)
