"""Reads what the protocol's page prints, and compares it with what really comes.

A printed answer holds to the last value, but for what a test's own system names otherwise (ids,
epochs) and for what differs from run to run (times, loads). `…` stands for anything.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "protocol.md").read_text()
ANYTHING = "…"
VARYING = {"at", "age_s", "connections", "subscriptions", "cached", "fetched", "end"}
VARYING |= {"url", "ws_url"}

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_NAMES = {
    "subscription": re.compile(r'(?<="subscription":)( ?)5\b|(?<=subscriptions/)()5\b'),
    "backend": re.compile(r'(?<="backend":)( ?)7\b'),
    "epoch": re.compile("()9f3c"),
    "store_id": re.compile("()5be1"),
    "dataset": re.compile(r'((?<=datasets/)|(?<="dataset":")|(?<="dataset": "))reports'),
}


def section(title: str) -> str:
    """What stands under a heading, down to the next heading."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no section {title!r}"
    return found[1]


def blocks(text: str, kind: str) -> list[str]:
    return [body for named, body in _BLOCK.findall(text) if named == kind]


def exchanges() -> list[tuple[str, str]]:
    """Every printed HTTP request with the answer that follows it."""
    found = re.findall(r"^```http\n(.*?)^```\n```json\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert len(found) == TEXT.count("```http"), "a printed request lacks its answer"
    return found


def table(text: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


def spans(text: str) -> list[str]:
    return _SPAN.findall(text)


SUBSCRIPTION = blocks(section("WebSocket"), "json")[1]
RESULTS = blocks(section("Results"), "json")[0]


def named(text: str, **real: object) -> str:
    """The printed text with a test's own names in it."""
    for kind, value in real.items():
        text = _NAMES[kind].sub(rf"\g<1>{value}", text)
    return text


def parsed(text: str, **real: object) -> Any:
    text = text.replace("SUBSCRIPTION", SUBSCRIPTION)
    text = re.sub(r'(?<!")…(?!")', '"…"', text).replace('{"…"}', '"…"')
    quoted = {kind: value if isinstance(value, int) else str(value) for kind, value in real.items()}
    return json.loads(named(text, **quoted))


def agree(printed: Any, real: Any, where: str = "") -> None:
    """Fails where the page and what came differ."""
    if printed == ANYTHING:
        return
    if isinstance(printed, dict):
        assert isinstance(real, dict), where
        assert real.keys() == printed.keys(), f"{where}: {sorted(real)} came"
        for key, value in printed.items():
            varying = key in VARYING and isinstance(value, int | float | str) and value != ANYTHING
            if varying:
                assert isinstance(real[key], type(value)), f"{where}.{key}"
            else:
                agree(value, real[key], f"{where}.{key}")
    elif isinstance(printed, list):
        more = printed[-1:] == [ANYTHING]
        sure = printed[:-1] if more else printed
        assert len(real) >= len(sure) if more else len(real) == len(sure), where
        for number, value in enumerate(sure):
            agree(value, real[number], f"{where}[{number}]")
    else:
        assert real == printed, f"{where}: the page prints {printed!r}, {real!r} came"
