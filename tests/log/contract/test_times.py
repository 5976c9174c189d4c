"""Every record has a time of its own, later than all before it; a cut divides them."""

from __future__ import annotations

from log.media import MediumUnderTest, lines


def test_times_grow_strictly_though_the_clock_goes_back_and_the_log_restarts(
    medium: MediumUnderTest,
) -> None:
    clock = iter([5.0, 3.0, 3.0, 4.0, 1.0, 0.5])
    for _ in range(2):
        with medium.open(clock=lambda: next(clock)) as log:
            for dataset in ("reports", "users", "reports"):
                log.open_dataset(dataset)
                log.append(dataset, [b"{}", b"{}"]).result()
    with medium.open() as log:
        for dataset in ("reports", "users"):
            log.open_dataset(dataset)
        stamps = [
            body["t"] for dataset in ("reports", "users") for _, body in lines(log, dataset=dataset)
        ]
    assert len(set(stamps)) == 12
    assert sorted(stamps) == [5_000_000 + n for n in range(12)]


def test_a_cut_divides_records_in_before_and_after(medium: MediumUnderTest) -> None:
    with medium.open(clock=lambda: 7.0) as log:
        for dataset in ("reports", "users"):
            log.open_dataset(dataset)
            log.append(dataset, [b"{}"] * 3)
        cut = log.cut()
        assert cut.ends == log.ends()
        for dataset in ("reports", "users"):
            log.append(dataset, [b"{}"] * 3).result()
        for dataset, end in cut.ends.items():
            found = lines(log, dataset=dataset)
            assert len(found) == 6
            assert [body["t"] <= cut.at_us for _, body in found] == [p < end for p, _ in found]
            assert 0 < end < log.ends()[dataset]


def test_records_are_later_than_the_moment_that_the_log_was_opened_with(
    medium: MediumUnderTest,
) -> None:
    with medium.open(clock=lambda: 50.0) as log:
        cut = log.cut()
    with medium.open(clock=lambda: 1.0, not_before_us=cut.at_us) as log:
        log.open_dataset("reports")
        log.append("reports", [b"{}"]).result()
        ((_, body),) = lines(log)
        assert body["t"] > cut.at_us
