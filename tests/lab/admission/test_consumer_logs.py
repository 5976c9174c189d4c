"""Consumer logs: worked by hand, equal to a plain play of them, and what must hold for all of
them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from lab.admission.made import POLICIES, made, offers, setups
from lab.admission.plain_logs import PlainRun, Played, plain_decisions
from tocsin.errors import SettingError
from tocsin.lab.simulators.consumer_logs import Logs, decide, play, simulate
from tocsin.lab.workloads.offers import CrowdSettings, Offers, crowd_offers
from tocsin.policies import parse_admission

FREE = Logs(
    notice="number",
    reference_bytes=0,
    broker_s=0.0,
    log_write_s=0.0,
    log_read_s=0.0,
    log_bytes_per_s=1e12,
    database_write_s=0.0,
    database_read_s=0.0,
    database_row_s=0.0,
    poll_s=0.0,
)
"""Nothing takes time: what is left is what a test gives a cost."""


def free(**changed: object) -> Logs:
    return Logs(**{**asdict(FREE), **changed})


@settings(max_examples=150, deadline=None)
@given(offers(), st.sampled_from(POLICIES), setups())
def test_kernel_equals_the_plain_play(workload: Offers, text: str, logs: Logs) -> None:
    admitted = plain_decisions(workload, text)
    plain = PlainRun(workload, admitted, logs).run()
    assert decide(workload, parse_admission(text)).tolist() == admitted
    measures, world = play(workload, np.array(admitted), logs)
    pairs = [
        (record, consumer)
        for record in range(len(workload))
        for consumer in PlainRun(workload, admitted, logs).consumers(record)
    ]
    assert world.record_of.tolist() == [record for record, _ in pairs]
    expected = [plain.latency[pair] for pair in pairs]
    np.testing.assert_allclose(world.latencies, expected, rtol=0, atol=1e-9)
    assert measures.ordered_mean_s == pytest.approx(ordered_mean_s(workload, plain), abs=1e-9)
    assert world.hit.tolist() == [pair in plain.hits for pair in pairs]
    assert measures.database_fetches == plain.fetches
    assert measures.read_bytes == plain.read_bytes
    assert measures.written_bytes == plain.written_bytes
    assert measures.expired_bytes == plain.expired_bytes
    assert measures.stored_bytes == plain.stored_bytes
    assert measures.stored_max_bytes == plain.max_bytes
    stored_byte_s = measures.stored_mean_bytes * measures.duration_s
    assert stored_byte_s == pytest.approx(plain.byte_s, rel=1e-9, abs=1e-6)


def ordered_mean_s(workload: Offers, plain: Played) -> float:
    """A record waits for those before it of the same consumer."""
    waits = [
        max(
            float(workload.at[before]) + late
            for (before, who), late in plain.latency.items()
            if who == consumer and before <= record
        )
        - float(workload.at[record])
        for record, consumer in plain.latency
    ]
    return sum(waits) / len(waits) if waits else 0.0


@settings(max_examples=100, deadline=None)
@given(offers(), st.sampled_from(POLICIES), setups())
def test_what_must_hold_whatever_the_policy(workload: Offers, text: str, logs: Logs) -> None:
    measures = simulate(workload, parse_admission(text), logs)
    admitted = np.array(plain_decisions(workload, text))
    assert measures.hits + measures.misses == measures.deliveries == workload.deliveries
    assert measures.records + measures.unmatched == len(workload)
    assert measures.admitted == admitted.sum()
    assert measures.copies == workload.waiting[admitted].sum()
    assert measures.hits <= measures.copies
    if not logs.retention_bytes:
        assert measures.hits == measures.copies
    assert measures.written_bytes == measures.stored_bytes + measures.expired_bytes
    sizes = workload.size_bytes * workload.waiting
    assert measures.database_written_bytes == sizes[~admitted].sum()
    if logs.layout == "each":
        assert measures.admitted_bytes == sizes[admitted].sum()
        if logs.retention_bytes:
            assert measures.stored_max_bytes <= logs.retention_bytes * workload.consumers
    if logs.layout == "each" and logs.notice == "gap":
        came = measures.admitted_bytes + measures.database_read_bytes
        assert measures.written_bytes == came
    assert 0 <= measures.latency_p50_s <= measures.latency_p90_s <= measures.latency_p99_s


def test_admitted_records_are_read_at_once_and_others_come_from_the_database() -> None:
    # Two consumers wait for content 0, one for content 1. mean(1): 2 is admitted, 1 < 2 is not,
    # 1 >= 1 is, 2 is.
    workload = made([[0, 1], [0]], [(1, 0, 10), (2, 1, 20), (3, 1, 20), (4, 0, 10)], [(0, 0)] * 2)
    measures = simulate(
        workload,
        parse_admission("mean(1)"),
        free(log_read_s=0.25, database_read_s=1.0, database_row_s=0.5),
    )
    assert (measures.records, measures.admitted, measures.copies) == (4, 3, 5)
    assert measures.hit_rate == 0.75
    assert measures.duplication_factor == 5 / 3
    assert (measures.hits, measures.misses, measures.database_fetches) == (5, 1, 1)
    # Hits take 0.25 s; the miss is noticed after 0.25, fetched in 1.5, read in another 0.25.
    assert measures.latency_mean_s == pytest.approx((5 * 0.25 + 2.0) / 6)
    assert measures.duration_s == pytest.approx(3.25)  # from 1 to 4.25
    assert measures.throughput_per_s == pytest.approx(4 / 3.25)
    assert measures.admitted_bytes == 2 * 10 + 20 + 2 * 10
    assert measures.duplicated_bytes == 10 + 10
    assert measures.written_bytes == measures.read_bytes == 60 + 20
    assert measures.database_written_bytes == measures.database_read_bytes == 20


def test_gap_is_noticed_by_the_next_record_or_by_the_end_mark() -> None:
    # threshold(1,0): 1 is admitted and raises the threshold to 1, 1 raises it to 2, then nothing.
    workload = made([[0]], [(float(at), 0, 10) for at in range(1, 6)], [(0, 0)])
    policy = parse_admission("threshold(1,0)")
    by_number, numbered = play(workload, decide(workload, policy), free(notice="number"))
    by_gap, gapped = play(workload, decide(workload, policy), free(notice="gap"))
    assert by_number.admitted == by_gap.admitted == 2
    assert by_gap.longest_refused == 3
    assert numbered.latencies.tolist() == pytest.approx([0, 0, 0, 0, 0], abs=1e-9)
    expected = [0, 0, 2, 1, 0]
    assert gapped.latencies.tolist() == pytest.approx(
        expected, abs=1e-9
    )  # all at 5, when no more will come


def test_log_that_is_behind_for_long_enough_gets_a_head_mark() -> None:
    # Refused at 1 and 2; the mark is due at 1 + 1.5. At 3 one is admitted, at 4 refused, and the
    # one at 5 shows it before its mark at 5.5.
    workload = made([[0]], [(float(at), 0, 10) for at in range(1, 6)], [(0, 0)])
    admitted = np.array([False, False, True, False, True])
    _, world = play(workload, admitted, free(notice="gap", mark_s=1.5))
    assert world.latencies.tolist() == pytest.approx([1.5, 0.5, 0, 1, 0], abs=1e-9)


def test_broker_in_turns_takes_what_there_is_and_ends_with_all_of_it() -> None:
    # The first turn takes what is there at 1 and ends at 1 + 1 + 0.25; the second takes the three
    # that came meanwhile and ends at 2.25 + 1 + 3 · 0.25 = 4; the last one finds it idle.
    times = [1.0, 1.5, 2.0, 2.25, 6.0]
    workload = made([[0]], [(at, 0, 10) for at in times], [(0, 0)])
    _, world = play(workload, np.ones(5, bool), free(turn_s=1.0, broker_s=0.25))
    ends = [2.25, 4.0, 4.0, 4.0, 7.25]
    expected = [end - at for end, at in zip(ends, times, strict=True)]
    assert world.latencies.tolist() == pytest.approx(expected, abs=1e-9)


def test_commit_delays_what_is_read_and_not_the_broker() -> None:
    workload = made([[0]], [(1.0, 0, 10), (1.0, 0, 10)], [(0, 0)])
    _, world = play(workload, np.ones(2, bool), free(broker_s=0.25, commit_s=1.0))
    assert world.latencies.tolist() == pytest.approx([1.25, 1.5], abs=1e-9)


def test_in_order_a_hit_waits_for_the_miss_before_it() -> None:
    workload = made([[0], [0]], [(1.0, 0, 10), (2.0, 1, 10), (3.0, 0, 10)], [(0, 0)])
    setup = free(notice="number", database_read_s=1.5)
    measures, world = play(workload, np.array([True, False, True]), setup)
    assert world.latencies.tolist() == pytest.approx([0, 1.5, 0], abs=1e-9)
    assert measures.ordered_mean_s == pytest.approx((0 + 1.5 + 0.5) / 3)


def test_retention_drops_the_oldest_which_is_then_asked_for() -> None:
    # One consumer reads every 10 s. Of 30, 30 and 50 bytes, 60 bytes hold only the last.
    workload = made([[0]], [(1, 0, 30), (2, 0, 30), (3, 0, 50)], [(10, 10)])
    measures, world = play(workload, np.ones(3, bool), free(retention_bytes=60))
    assert world.hit.tolist() == [False, False, True]
    assert (measures.hits, measures.misses) == (1, 2)
    # Both come back from the database: 50 + 30 does not fit, nor do 60 + what was there before.
    assert measures.stored_max_bytes == 60
    assert measures.written_bytes == 110 + 60
    assert measures.expired_bytes == 170 - 60
    # 30 bytes for 1 s, 60 for 1 s, 50 for 7 s.
    assert measures.stored_mean_bytes == pytest.approx((30 + 60 + 350) / 9)


def test_response_counts_from_the_read_on() -> None:
    # Published at 1 and 2, read at 10: the first is fetched from the database, the second is there.
    workload = made([[0]], [(1, 0, 30), (2, 0, 30)], [(10, 10)])
    setup = free(retention_bytes=30, log_read_s=0.5, database_read_s=2.0)
    measures, world = play(workload, np.ones(2, bool), setup)
    assert world.latencies.tolist() == pytest.approx([9 + 0.5 + 2.0 + 0.5, 8 + 0.5])
    assert measures.response_mean_s == pytest.approx((3.0 + 0.5) / 2)


def test_refusing_makes_room_for_others() -> None:
    workload = made([[0]], [(1, 0, 30), (2, 0, 30), (3, 0, 50)], [(10, 10)])
    _, world = play(workload, np.array([True, True, False]), free(retention_bytes=60))
    assert world.hit.tolist() == [True, True, False]


def test_poller_takes_a_batch_a_period() -> None:
    # Five requests at 1 s, batches of two, looked for every 4 s: they come at 4, 4, 8, 8, 12 s.
    workload = made([[0]], [(1, 0, 10)] * 5, [(0, 0)])
    measures, world = play(workload, np.zeros(5, bool), free(poll_s=4.0, batch=2))
    assert (world.latencies + 1).tolist() == pytest.approx([4, 4, 8, 8, 12])
    assert measures.database_fetches == 3


def test_broker_waits_for_the_database_and_later_records_wait_for_the_broker() -> None:
    workload = made([[0], [1]], [(0, 0, 10), (0, 1, 10)], [(0, 0)] * 2)
    _, world = play(workload, np.array([False, True]), free(database_write_s=2.0, broker_s=1.0))
    assert world.latencies.tolist() == pytest.approx([3, 4])


def test_shared_log_holds_a_record_once_and_references_to_it() -> None:
    workload = made([[0, 1, 2]], [(1, 0, 100), (2, 0, 100)], [(0, 0)] * 3)
    setup = {"reference_bytes": 4, "log_read_s": 0.5}
    each = simulate(workload, parse_admission("all"), free(**setup))
    shared = simulate(workload, parse_admission("all"), free(layout="shared", **setup))
    assert each.stored_bytes == 2 * 3 * 100
    assert shared.stored_bytes == shared.admitted_bytes == 2 * (100 + 3 * 4)
    assert (each.duplicated_bytes, shared.duplicated_bytes) == (400, 0)
    assert (each.read_bytes, shared.read_bytes) == (600, 624)
    assert each.latency_mean_s == pytest.approx(0.5)
    assert shared.latency_mean_s == pytest.approx(1.0)  # the second fetch


def test_shared_log_has_the_room_of_all_logs() -> None:
    # Two consumers with 60 bytes each: a shared log of 120 holds three records of 40.
    workload = made([[0], [1]], [(at, at % 2, 40) for at in range(1, 5)], [(10, 10)] * 2)
    _, each = play(workload, np.ones(4, bool), free(retention_bytes=60))
    _, shared = play(workload, np.ones(4, bool), free(retention_bytes=60, layout="shared"))
    assert each.hit.tolist() == [False, False, True, True]
    assert shared.hit.tolist() == [False, True, True, True]


def test_record_that_nobody_waits_for_is_no_record() -> None:
    workload = made([[0], []], [(1, 1, 10), (2, 0, 10), (3, 1, 10)], [(0, 0)])
    measures = simulate(workload, parse_admission("all"), FREE)
    assert (measures.records, measures.unmatched, measures.hit_rate) == (1, 2, 1.0)
    nobody = made([[]], [(1, 0, 10)], [(0, 0)])
    assert simulate(nobody, parse_admission("all"), FREE).row()["throughput_per_s"] == 0


def test_duplication_factor_of_nothing_is_one() -> None:
    workload = made([[0, 1]], [(1, 0, 10)], [(0, 0)] * 2)
    assert simulate(workload, parse_admission("none"), FREE).duplication_factor == 1.0


@pytest.mark.parametrize(
    ("field", "value"),
    [("batch", 0), ("poll_s", -1.0), ("retention_bytes", -1), ("log_bytes_per_s", 0.0)],
)
def test_impossible_setup_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(SettingError) as told:
        free(**{field: value})
    assert told.value.field == field


SMALL = CrowdSettings(records=150, consumers=40, restaurants=8, foods=4, discounts=2)
UNCOMPILED = """
import json
from lab.admission.test_consumer_logs import small_rows
from tocsin.lab.jit.functions import JIT
assert not JIT
print(json.dumps(small_rows()))
"""


def small_rows() -> list[dict[str, float]]:
    workload = crowd_offers(SMALL, seed=3)
    rows = [
        simulate(workload, parse_admission(text), Logs(layout=layout, retention_bytes=3000)).row()
        for text in POLICIES
        for layout in ("each", "shared")
    ]
    return [{name: row[name] for name in row if name != "seconds"} for row in rows]


def test_plain_python_gives_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNCOMPILED],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for ours, plain in zip(small_rows(), json.loads(done.stdout), strict=True):
        assert ours == pytest.approx(plain, rel=1e-12)
