"""The demo's outcome as a table and as JSON."""

from __future__ import annotations

import io
import json

from rich.console import Console

from tocsin.demo.ledger import Ledger
from tocsin.demo.table import as_json, as_table


def ledger() -> Ledger:
    ledger = Ledger()
    ledger.published("emergencies", 1234)
    for subscription, broker in ((1, "broker_1"), (2, "broker_2")):
        ledger.subscribed(subscription, "alice", broker, backend=7, epoch="e", after=0)
        ledger.displayed(subscription, 1, broker=broker, latency_ms=200.0 * subscription)
        ledger.cache(broker, hits=subscription, misses=1, fetched_bytes=4000)
        ledger.cache(broker, page_hits=3, page_misses=subscription - 1, page_saved_bytes=-500)
    ledger.stored(7, "e", 1)
    return ledger


def shown(ledger: Ledger) -> dict[str, list[str]]:
    text = io.StringIO()
    console = Console(width=120, no_color=True, file=text)
    console.print(as_table(ledger.outcome()))
    rows = [line for line in text.getvalue().splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]
    return {row[0]: row[1:] for row in cells}


def test_json_has_the_keys_that_programs_rely_on() -> None:
    told = json.loads(as_json(ledger().outcome(), seed=1))
    assert {key: told[key] for key in ("published", "results", "delivered")} == {
        "published": 1234,
        "results": 1,
        "delivered": 2,
    }
    assert (told["lost"], told["doubled"], told["out_of_order"]) == (0, 0, 0)
    assert told["latency_ms"] == {"p50": 200.0, "p99": 400.0}
    assert told["hit_ratio"] == 0.6
    assert (told["pages_opened"], told["page_saved_bytes"]) == (7, -1000)
    assert told["brokers"]["broker_2"]["page_hit_ratio"] == 0.75
    assert told["promises_held"] is True
    assert told["seed"] == 1
    assert set(told["brokers"]) == {"broker_1", "broker_2"}
    assert told["brokers"]["broker_2"]["delivered"] == 1


def test_table_shows_each_broker_and_the_total() -> None:
    rows = shown(ledger())
    assert rows["published"] == ["", "", "1,234"]
    assert rows["delivered"] == ["1", "1", "2"]
    assert rows["lost"] == ["0", "0", "0"]
    assert rows["latency p50"] == ["200 ms", "400 ms", "200 ms"]
    assert rows["hit ratio"] == ["50.0%", "66.7%", "60.0%"]
    assert rows["bytes fetched"] == ["4,000", "4,000", "8,000"]
    assert "never stored" not in rows
    assert rows["pictures opened"] == ["3", "4", "7"]
    assert rows["their hit ratio"] == ["100.0%", "75.0%", "85.7%"]
    assert rows["their bytes saved"] == ["-500", "-500", "-1,000"]


def test_table_shows_what_broke() -> None:
    broken = ledger()
    broken.displayed(2, 9, broker="broker_2")
    broken.displayed(1, 1, broker="broker_1")
    rows = shown(broken)
    assert rows["doubled"] == ["1", "0", "1"]
    assert rows["never stored"] == ["0", "1", "1"]


def test_an_empty_run_can_be_shown() -> None:
    rows = shown(Ledger())
    assert rows["hit ratio"] == ["-"]
    assert rows["latency p99"] == ["-"]
