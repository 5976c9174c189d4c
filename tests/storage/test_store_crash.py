"""A writer that is killed in the middle leaves every run whole or not at all."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from random import Random

import pytest
from sqlalchemy import select

from tocsin.storage.store import schema
from tocsin.storage.store.database import Database
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

from .conftest import furnish

BACKENDS = 20
ROWS = 400

# Commits runs for ever and says each one that was acknowledged.
WRITER = f"""
import sys
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

store = Store.open(sys.argv[1])
backends = [number for number, _ in store.subscriptions.parameter_sets("by_type")]
number = int(sys.argv[2])
while True:
    name = f"batch-{{number}}"
    rows = [(backends[row % {BACKENDS}], f"{{name}}/{{row}}".encode()) for row in range({ROWS})]
    store.runs.commit_run(Run("by_type", name, 1.0, float(number)), rows)
    print(number, flush=True)
    number += 1
"""


def check(url: str, acknowledged: int) -> int:
    """Every run up to the last is whole; returns the number of the next."""
    database = Database(url)
    store = Store(database)
    in_order = select(schema.runs.c.run).order_by(schema.runs.c.number)
    runs = database.read(lambda connection: list(connection.execute(in_order).scalars()))
    every = select(schema.results.c.id, schema.results.c.payload)
    rows = database.read(lambda connection: connection.execute(every).all())
    assert runs == [f"batch-{number}" for number in range(len(runs))]
    assert len(runs) > acknowledged
    assert len({number for number, _ in rows}) == len(rows)
    expected = Counter(f"batch-{n}/{row}" for n in range(len(runs)) for row in range(ROWS))
    assert Counter(payload.decode() for _, payload in rows) == expected
    for number, _ in store.subscriptions.parameter_sets("by_type"):
        found = store.results.read(number, 0, 10**9, 10**9)
        assert [result.position for result in found.results] == list(range(1, found.head + 1))
    assert {one.head for one in store.subscriptions.news("north", 0)[1]} == {
        len(runs) * ROWS // BACKENDS
    }
    # The batch that was under way is repeated after a restart: what is there stays as it is.
    if runs:
        assert store.runs.commit_run(Run("by_type", runs[-1], 1.0, 1.0), [(1, b"x")]) is None
    store.close()
    return len(runs)


@pytest.mark.processes
def test_runs_are_whole_or_absent_after_kill_9(url: str) -> None:
    with Store.open(url) as store:
        furnish(store)
        for number in range(BACKENDS):
            store.subscriptions.subscribe("alice", "by_type", {"type": str(number)}, "north")
    random = Random(7)
    following = 0
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, url, str(following)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        acknowledged = -1
        for _ in range(random.randint(1, 12)):
            acknowledged = int(writer.stdout.readline())
        # Now somewhere inside the next commit: spin a random while, then kill without warning.
        for _ in range(random.randint(0, 200_000)):
            pass
        writer.kill()
        rest = writer.stdout.read().split()
        writer.wait()
        writer.stdout.close()
        acknowledged = int(rest[-1]) if rest else acknowledged
        following = check(url, acknowledged)
    assert following > 3
