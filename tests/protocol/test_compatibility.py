"""Today's records compared with those that peers of the same version were built with."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocol.compatibility import differences
from tocsin.protocol import VERSION
from tocsin.protocol.listing import schema

SNAPSHOTS = Path(__file__).parent / "snapshots"
Change = Callable[[dict[str, Any]], None]


def snapshot() -> Path:
    return SNAPSHOTS / f"version_{VERSION}.schema.json"


def test_peers_of_this_version_can_read_what_is_sent_today() -> None:
    assert snapshot().exists(), (
        f"version {VERSION} has no snapshot yet: copy docs/reference/protocol.schema.json to "
        f"{snapshot()}"
    )
    broken = differences(json.loads(snapshot().read_text()), schema())
    assert not broken, (
        "older peers could not read this: raise VERSION in protocol/version.py, and say there "
        "which is the oldest that is still understood\n" + "\n".join(broken)
    )


def removed(record: dict[str, Any]) -> None:
    del record["properties"]["head"]
    record["required"].remove("head")


def renamed(record: dict[str, Any]) -> None:
    record["properties"]["newest"] = record["properties"].pop("head")
    record["required"][record["required"].index("head")] = "newest"


def newly_required(record: dict[str, Any]) -> None:
    record["properties"]["cause"] = {"type": "string"}
    record["required"].append("cause")


def retyped(record: dict[str, Any]) -> None:
    record["properties"]["head"] = {"type": "string"}


def no_longer_required(record: dict[str, Any]) -> None:
    record["required"].remove("head")


@pytest.mark.parametrize("change", [removed, renamed, newly_required, retyped, no_longer_required])
def test_a_change_that_an_older_peer_could_not_read_is_found(change: Change) -> None:
    now = copy.deepcopy(schema())
    change(now["$defs"]["Signal"])
    assert any(line.startswith("Signal.") for line in differences(schema(), now))


def test_a_record_that_is_gone_is_found() -> None:
    now = copy.deepcopy(schema())
    del now["$defs"]["Signal"]
    assert differences(schema(), now) == ["Signal is gone"]


def test_an_added_optional_field_and_other_words_are_fine() -> None:
    now = copy.deepcopy(schema())
    now["$defs"]["Signal"]["properties"]["cause"] = {"type": "string"}
    now["$defs"]["Signal"]["properties"]["head"]["description"] = "said otherwise"
    now["$defs"]["Brand"] = {"properties": {}}
    assert differences(schema(), now) == []


def test_a_field_added_to_a_record_that_refuses_unknown_ones_is_found() -> None:
    now = copy.deepcopy(schema())
    now["$defs"]["PagesChange"]["properties"]["cause"] = {"type": "string"}
    assert len(differences(schema(), now)) == 1
