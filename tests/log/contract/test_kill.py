"""kill -9 of the writing process, under load: nothing acknowledged is missing, nothing is there
twice, and every request is whole once it was sent again under its key."""

from __future__ import annotations

import itertools
import subprocess
import sys
from random import Random

import pytest

from log.media import MediumUnderTest, lines
from tocsin.storage.log import Appended, PublicationLog

PUBLISHERS = 6
PER_REQUEST = 4

# Publishes for ever and says which requests were acknowledged. Each publisher goes on with the
# first of its requests that was not: under the same key.
WRITER = f"""
import os, sys, threading
from tocsin.service.logs import configure_logs
from tocsin.storage.log import open_log

configure_logs("warning", "json")

log = open_log(sys.argv[1], segment_bytes=5000)
log.open_dataset("reports")

def publish(who, n):
    while True:
        records = [b'{{"w":%d,"n":%d,"i":%d}}' % (who, n, i) for i in range({PER_REQUEST})]
        done = log.append("reports", records, f"{{who}}-{{n}}").result()
        os.write(1, b"%d %d %d %d\\n" % (who, n, done.first, done.end))
        n += 1

for who, n in enumerate(map(int, sys.argv[2].split(","))):
    threading.Thread(target=publish, args=(who, n)).start()
"""


def publish_until_killed(address: str, following: list[int], random: Random) -> list[list[int]]:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, address, ",".join(map(str, following))],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    told = [writer.stdout.readline() for _ in range(random.randint(1, 200))]
    writer.kill()
    told += writer.stdout.read().splitlines(keepends=True)
    writer.wait()
    writer.stdout.close()
    assert told[0], "the writer failed"
    return [[int(word) for word in line.split()] for line in told if line.endswith("\n")]


@pytest.mark.processes
def test_a_killed_writer_loses_and_doubles_nothing(medium: MediumUnderTest) -> None:
    random = Random(11)
    following = [0] * PUBLISHERS
    acknowledged: dict[tuple[int, int], tuple[int, int]] = {}
    for _ in range(3):
        for who, n, first, end in publish_until_killed(medium.address, following, random):
            acknowledged[who, n] = (first, end)
            following[who] = max(following[who], n + 1)
    with medium.open() as log:
        log.open_dataset("reports")
        for (who, n), place in acknowledged.items():
            done = publish(log, who, n)
            assert done == (*place, True)
        for who, n in enumerate(following):  # in doubt until it is sent again
            publish(log, who, n)
        found = [(body["r"]["w"], body["r"]["n"], body["r"]["i"]) for _, body in lines(log)]
    expected = itertools.chain.from_iterable(
        [(who, n, i) for i in range(PER_REQUEST)]
        for who in range(PUBLISHERS)
        for n in range(following[who] + 1)
    )
    assert sorted(found) == sorted(expected)
    for who in range(PUBLISHERS):
        own = [one for one in found if one[0] == who]
        assert own == sorted(own)


def publish(log: PublicationLog, who: int, n: int) -> Appended:
    records = [b'{"w":%d,"n":%d,"i":%d}' % (who, n, i) for i in range(PER_REQUEST)]
    return log.append("reports", records, f"{who}-{n}").result()
