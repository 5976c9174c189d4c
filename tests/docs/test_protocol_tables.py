"""The protocol's tables list what the code has, and its examples belong together."""

from __future__ import annotations

from processes.protocol_page import RESULTS, SUBSCRIPTION, parsed, section, spans, table
from tocsin.client import frames
from tocsin.errors import KINDS
from tocsin.service.tokens import SCOPES


def test_every_scope_is_listed() -> None:
    assert {spans(row[0])[0] for row in table(section("Tokens"))} == set(SCOPES)


def test_every_error_is_listed_with_its_status() -> None:
    listed = {spans(code)[0]: int(status) for code, status, _ in table(section("Errors"))}
    assert listed == {code: kind.status for code, kind in KINDS.items()}


def test_every_close_code_is_listed() -> None:
    ours = {value for name, value in vars(frames).items() if name.isupper() and is_code(value)}
    assert {int(row[0]) for row in table(section("Close codes"))} == ours | {1011}


def is_code(value: object) -> bool:
    return isinstance(value, int) and 1000 <= value < 5000


def test_the_printed_subscription_and_results_belong_together() -> None:
    told, results = parsed(SUBSCRIPTION), parsed(RESULTS)
    assert told["marker"] == results["after"] == results["results"][0]["position"] - 1
    assert results["cached"] + results["fetched"] == results["upto"] - results["after"]
