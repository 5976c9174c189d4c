"""Files dropped into a dataset's inbox are taken once each, and what is wrong with them is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin.client import SyncClient
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def test_dropped_files_are_taken_or_refused_with_the_reason(live: System) -> None:
    inbox: Path = live.settings.data / "inbox" / "dropped"
    with SyncClient(cluster=live.cluster_url, token=live.token("ann", "admin")) as client:
        client.sql("CREATE DATASET dropped (id STRING, n INT)")
        (inbox / "one.csv").write_text("id,n\na,1\nb,two\nc,3\n")
        (inbox / "two.jsonl").write_text('{"id": "d", "n": 4}\n')
        (inbox / "broken.parquet").write_text("no parquet")
        (inbox / "growing.jsonl.tmp").write_text('{"id": "e"')
        until(lambda: (inbox / "taken" / "one.csv").exists())
        until(lambda: (inbox / "taken" / "two.jsonl").exists())
        until(lambda: (inbox / "refused" / "broken.parquet.reason").exists())
        (found,) = client.sql("SELECT id FROM dropped ORDER BY id")
        assert found.rows == [["a"], ["c"], ["d"]]
        (letters,) = client.sql(
            "SELECT source, line, field FROM dead_letters WHERE dataset = 'dropped'"
        )
        assert letters.rows == [["one.csv", 3, "n"]]
        assert (inbox / "growing.jsonl.tmp").exists()
