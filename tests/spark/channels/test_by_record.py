"""Which channels' results stem from one record each, so that it can be stored with them."""

from __future__ import annotations

import pytest

from tocsin.model import Column, Dataset
from tocsin.spark.channels import compile_channel
from tocsin.sql import CreateChannel, parse_one

DATASETS = {
    name: Dataset(name, (Column("id", "INT"), Column("kind", "STRING")))
    for name in ("reports", "shelters")
}


@pytest.mark.parametrize(
    ("query", "by_record"),
    [
        ("SELECT r.id FROM NEW reports r WHERE r.kind = :kind", True),
        ("SELECT r.id, s.id AS s FROM NEW reports r JOIN shelters s ON r.kind = s.kind", True),
        (
            "SELECT r.id FROM NEW reports r WHERE r.kind = :kind"
            " UNION ALL SELECT r.id FROM NEW reports r WHERE r.id > 5",
            True,
        ),
        ("SELECT r.id FROM NEW reports r WHERE r.kind = :kind ORDER BY r.id", False),
        ("SELECT r.id FROM NEW reports r WHERE r.kind = :kind LIMIT 3", False),
        ("SELECT DISTINCT r.id FROM NEW reports r WHERE r.kind = :kind", False),
        ("SELECT r.kind, count(*) AS n FROM NEW reports r GROUP BY r.kind", False),
        ("SELECT count(*) AS n FROM NEW reports r WHERE r.kind = :kind", False),
        ("SELECT r.id FROM NEW reports r JOIN NEW shelters s ON r.id = s.id", False),
    ],
)
def test_a_result_of_one_record_is_told_from_others(query: str, by_record: bool) -> None:
    declared = "kind STRING" if ":kind" in query else ""
    asked = parse_one(f"CREATE CONTINUOUS CHANNEL c({declared}) AS " + query)
    assert isinstance(asked, CreateChannel)
    assert compile_channel(asked, DATASETS).by_record == by_record
