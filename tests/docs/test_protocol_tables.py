"""The protocol's tables list what the code has, and its examples belong together."""

from __future__ import annotations

from pathlib import Path

from processes.protocol_page import RESULTS, SUBSCRIPTION, TEXT, parsed, section, spans, table
from tocsin.errors import KINDS
from tocsin.protocol import client as frames
from tocsin.protocol import listing
from tocsin.service.tokens import SCOPES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_every_scope_is_listed() -> None:
    assert {spans(row[0])[0] for row in table(section("Tokens"))} == set(SCOPES)


def test_every_error_is_listed_with_its_status() -> None:
    listed = {spans(code)[0]: int(status) for code, status, _ in table(section("Errors"))}
    assert listed == {code: kind.status for code, kind in KINDS.items()}


def test_every_close_code_is_listed() -> None:
    ours = {value for name, value in vars(frames).items() if name.isupper() and is_code(value)}
    assert {int(row[0]) for row in table(section("Close codes"))} == ours


def is_code(value: object) -> bool:
    return isinstance(value, int) and 1000 <= value < 5000


def test_the_printed_subscription_and_results_belong_together() -> None:
    told, results = parsed(SUBSCRIPTION), parsed(RESULTS)
    assert told["marker"] == results["after"] == results["results"][0]["position"] - 1
    assert results["cached"] + results["fetched"] == results["upto"] - results["after"]


def test_the_tables_of_all_records_and_the_schema_are_those_of_the_code() -> None:
    anew = "write them anew: python -m tocsin.protocol.listing docs/reference"
    assert listing.page(TEXT) == TEXT, anew
    assert (REFERENCE / listing.SCHEMA).read_text() == listing.schema_text(), anew
