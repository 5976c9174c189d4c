"""Offers made by hand or at random, for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from tocsin.lab.simulators.consumer_logs import Logs
from tocsin.lab.workloads.offers import Offers
from tocsin.lab.workloads.offers.vocabulary import Vocabulary

POLICIES = ["all", "none", "threshold(0.3,0.2)", "mean(3)", "buffer(0.5,0.5)", "threshold(0.2,0.8)"]


def made(
    contents: Sequence[Sequence[int]],
    records: Sequence[tuple[float, int, int]],
    reads: Sequence[tuple[float, float]],
) -> Offers:
    """`contents` are the consumers of each, `records` (at, content, size), `reads` of each consumer
    (every, first)."""
    counts = [len(who) for who in contents]
    at, content, size = zip(*records, strict=True)
    return Offers(
        at=np.array(at, float),
        producer=np.zeros(len(records), np.int32),
        content=np.array(content, np.int32),
        size_bytes=np.array(size, np.int64),
        values=np.array([[0, 0, number] for number in range(len(contents))], np.int32),
        first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        consumer=np.array([one for who in contents for one in who], np.int32),
        read_every_s=np.array([every for every, _ in reads], float),
        read_at_s=np.array([first for _, first in reads], float),
        subscribed=np.array(
            [(one, 0, 0, number) for number, who in enumerate(contents) for one in who], np.int32
        ).reshape(-1, 4),
        vocabulary=Vocabulary(1, 1, max(len(contents), 1)),
    ).check()


@st.composite
def offers(draw: st.DrawFn, most_records: int = 40) -> Offers:
    """Up to four consumers, five contents; some records are for nobody."""
    consumers = draw(st.integers(1, 4))
    who = st.sets(st.integers(0, consumers - 1)).map(sorted)
    contents = draw(st.lists(who, min_size=1, max_size=5))
    gap = st.sampled_from([0.0, 0.01, 0.1, 0.5, 2.0])
    steps = draw(
        st.lists(
            st.tuples(gap, st.integers(0, len(contents) - 1), st.integers(1, 60)),
            min_size=1,
            max_size=most_records,
        )
    )
    at, records = 0.0, []
    for elapsed, content, size in steps:
        at += elapsed
        records.append((at, content, size))
    reads = [
        (draw(st.sampled_from([0.0, 0.25, 0.3, 1.0])), draw(st.sampled_from([0.0, 0.1, 0.7])))
        for _ in range(consumers)
    ]
    return made(contents, records, reads)


@st.composite
def setups(draw: st.DrawFn) -> Logs:
    return Logs(
        layout=draw(st.sampled_from(["each", "shared"])),
        notice=draw(st.sampled_from(["gap", "number"])),
        retention_bytes=draw(st.sampled_from([0, 30, 70, 200])),
        reference_bytes=draw(st.sampled_from([0, 3])),
        broker_s=draw(st.sampled_from([0.001, 0.07])),
        log_write_s=draw(st.sampled_from([0.0, 0.003])),
        log_read_s=draw(st.sampled_from([0.0, 0.011])),
        log_bytes_per_s=1000.0,
        database_write_s=draw(st.sampled_from([0.0, 0.05])),
        database_read_s=draw(st.sampled_from([0.0, 0.013])),
        database_row_s=0.002,
        poll_s=draw(st.sampled_from([0.0, 0.3])),
        batch=draw(st.sampled_from([1, 3, 100])),
        turn_s=draw(st.sampled_from([0.0, 0.2])),
        commit_s=draw(st.sampled_from([0.0, 0.15])),
        mark_s=draw(st.sampled_from([0.0, 0.1, 0.7])),
    )
