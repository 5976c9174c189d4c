"""kill -9 of the process that feeds, under load: every foreign record is in the dataset or among
the dead letters, exactly once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from cluster.feeds.bench import Bench, until
from tocsin.dev.kafka import Kafka

FEEDER = """
import asyncio, sys
from pathlib import Path
import msgspec
from tocsin.cluster.feeds import Feeds, topic
from tocsin.intake.dead_letters import DEAD_LETTERS
from tocsin.cluster.intake import Intake
from tocsin.model import Dataset
from tocsin.settings import Settings
from tocsin.storage.log import open_log
from tocsin.storage.store.store import Store

topic.MOST_RECORDS = 40  # many chunks

async def main():
    directory, kafka = sys.argv[1], sys.argv[2]
    dataset = msgspec.json.decode(sys.argv[3], type=Dataset)
    datasets = {one.name: one for one in (dataset, DEAD_LETTERS)}
    log = open_log(f"{directory}/log", segment_bytes=1 << 20)
    for name in datasets:
        log.open_dataset(name)
    store = Store.open(f"sqlite:///{directory}/store.db")
    feeds = Feeds(Settings(kafka=kafka), Intake(log, datasets.__getitem__, 10_000), store.feeds)
    feeds.start(dataset)
    while True:
        print(sum(log.ends().values()), flush=True)
        await asyncio.sleep(0.01)

asyncio.run(main())
"""


def feed_until_killed(bench: Bench, directory: Path, kafka: Kafka) -> None:
    dataset = msgspec.json.encode(bench.dataset).decode()
    feeder = subprocess.Popen(
        [sys.executable, "-c", FEEDER, str(directory), kafka.url, dataset],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert feeder.stdout is not None
    start = feeder.stdout.readline()
    while (line := feeder.stdout.readline()) == start:
        pass
    assert line, "the feeder failed"
    for _ in range(10):  # it is at work now
        feeder.stdout.readline()
    feeder.kill()
    feeder.wait()
    feeder.stdout.close()


@pytest.mark.processes
async def test_a_killed_feed_loses_and_doubles_nothing(kafka: Kafka, tmp_path: Path) -> None:
    bench = Bench(kafka, tmp_path)
    written: dict[int, list[int]] = {0: [], 1: [], 2: []}
    poison = 0
    stop = threading.Event()

    def fill() -> None:
        nonlocal poison
        while not stop.is_set():
            for partition, numbers in written.items():
                new = list(range(len(numbers), len(numbers) + 70))
                bench.write(partition, *new)
                numbers += new
            bench.topic.write([b"poison"], partition=1)
            poison += 1

    filling = threading.Thread(target=fill, daemon=True)
    filling.start()
    for _ in range(3):
        await asyncio.to_thread(feed_until_killed, bench, tmp_path, kafka)
    stop.set()
    filling.join()
    async with bench:
        total = sum(map(len, written.values()))
        await until(lambda: len(bench.records()) >= total)
        await until(lambda: bench.state == "up to date")
        assert {p: bench.numbers(p) for p in written} == written
        assert len(bench.records("dead_letters")) == poison
