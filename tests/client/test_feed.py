from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from tocsin.client.feed import Feed, Gap, Result
from tocsin.protocol.client import Missing, ResultInfo, ResultsFrame, SubscriptionInfo


def info(**changes: Any) -> SubscriptionInfo:
    base: dict[str, Any] = {
        "subscription": 5,
        "subscriber": "alice",
        "backend": 7,
        "channel": "floods",
        "arguments": {},
        "epoch": "e1",
        "head": 0,
        "floor": 0,
        "marker": 0,
    }
    return SubscriptionInfo(**(base | changes))


def frame(
    after: int, upto: int, head: int, *, asked: bool = True, **changes: Any
) -> ResultsFrame[Any]:
    results = [ResultInfo(p, 0.0, p) for p in range(after + 1, upto + 1)]
    base: dict[str, Any] = {
        "backend": 7,
        "epoch": "e1",
        "after": after,
        "upto": upto,
        "head": head,
        "results": results,
        "ref": 1 if asked else UNSET,
    }
    return ResultsFrame(**(base | changes))


def drain(feed: Feed) -> list[Result]:
    taken = []
    while (result := feed.take()) is not None:
        taken.append(result)
    return taken


def test_a_feed_starts_behind_its_marker() -> None:
    feed = Feed(10)
    feed.opened(info(marker=3, head=5))
    wanted = feed.wanted()
    assert wanted is not None
    assert (wanted.after, wanted.limit) == (3, 10)
    assert feed.wanted() is None  # one get at a time


def test_nothing_is_asked_for_while_the_application_is_behind() -> None:
    feed = Feed(4)
    feed.opened(info(head=100))
    assert feed.wanted() is not None
    feed.arrived(frame(0, 4, 100))
    assert feed.wanted() is None
    feed.take()
    assert feed.wanted() is None
    feed.take()
    wanted = feed.wanted()
    assert wanted is not None
    assert (wanted.after, wanted.limit) == (4, 2)


def test_inline_results_without_room_are_asked_for_later() -> None:
    feed = Feed(2)
    feed.opened(info())
    feed.arrived(frame(0, 2, 2, asked=False))
    feed.arrived(frame(2, 3, 3, asked=False))
    assert [r.position for r in drain(feed)] == [1, 2]
    wanted = feed.wanted()
    assert wanted is not None
    assert wanted.after == 2


def test_inline_results_behind_a_hole_are_asked_for() -> None:
    feed = Feed(10)
    feed.opened(info())
    feed.arrived(frame(2, 3, 3, asked=False))
    assert feed.take() is None
    wanted = feed.wanted()
    assert wanted is not None
    assert wanted.after == 0


def test_a_gap_is_told_with_the_next_result() -> None:
    feed = Feed(10)
    feed.opened(info(head=5))
    feed.wanted()
    feed.arrived(frame(3, 5, 5, gap=Missing(1, 3)))
    first, second = drain(feed)
    assert first.gap == Gap("floods", 1, 3, "no longer kept")
    assert first.position == 4
    assert second.gap is None
    assert feed.gaps == [first.gap]


def test_a_hole_that_nobody_explained_is_told_too() -> None:
    feed = Feed(10)
    feed.opened(info(head=4))
    feed.wanted()
    feed.arrived(frame(0, 4, 4, results=[ResultInfo(1, 0.0, 1), ResultInfo(4, 0.0, 4)]))
    assert [(r.position, r.gap and (r.gap.first, r.gap.last)) for r in drain(feed)] == [
        (1, None),
        (4, (2, 3)),
    ]


def test_a_new_epoch_is_told_as_a_gap_of_unknown_length() -> None:
    feed = Feed(10)
    feed.opened(info(head=2))
    feed.wanted()
    feed.arrived(frame(0, 2, 2))
    feed.opened(info(epoch="e2", head=1))
    feed.wanted()
    feed.arrived(frame(0, 1, 1, epoch="e2"))
    taken = drain(feed)
    assert [(r.epoch, r.position) for r in taken] == [("e1", 1), ("e1", 2), ("e2", 1)]
    assert taken[2].gap is not None
    assert (taken[2].gap.first, taken[2].gap.last) == (3, None)
    feed.acknowledge(taken[1])  # of a dead epoch: its position means nothing now
    assert feed.acknowledgement() is None
    feed.acknowledge(taken[2])
    assert feed.acknowledgement() == ("e2", 1)


def test_acknowledgements_are_cumulative_and_sent_again_after_a_reconnection() -> None:
    feed = Feed(10)
    feed.opened(info(head=3))
    feed.wanted()
    feed.arrived(frame(0, 3, 3))
    taken = drain(feed)
    feed.acknowledge(taken[2])
    feed.acknowledge(taken[0])
    assert feed.acknowledgement() == ("e1", 3)
    assert feed.acknowledgement() is None
    assert not feed.settled
    feed.opened(info(head=3))
    assert feed.acknowledgement() == ("e1", 3)
    feed.confirmed("e1", 3)
    assert feed.settled


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "signal", "inline", "answer", "lose", "reopen", "take"]),
        st.integers(0, 6),
        st.integers(0, 6),
    ),
    max_size=80,
)


@given(steps=STEPS, prefetch=st.integers(1, 8))
def test_whatever_the_network_does_results_leave_once_and_in_order(
    steps: list[tuple[str, int, int]], prefetch: int
) -> None:
    feed = Feed(prefetch)
    feed.opened(info())
    head, asked = 0, None
    seen: list[int] = []

    def answer() -> None:
        nonlocal asked
        asked = asked or feed.wanted()
        if asked is not None:
            feed.arrived(frame(asked.after, min(head, asked.after + asked.limit), head))
            asked = None

    for step, a, b in steps:
        match step:
            case "publish":
                head += a
            case "signal":
                feed.signalled("e1", max(0, head - a))
            case "inline":
                after = max(0, head - a - b)
                feed.arrived(frame(after, min(head, after + b), head, asked=False))
            case "answer":
                answer()
            case "lose":
                asked = asked or feed.wanted()
            case "reopen":
                asked = None
                feed.opened(info(head=head))
            case "take":
                result = feed.take()
                if result is not None:
                    seen.append(result.position)
        assert feed.buffered <= 2 * prefetch  # an inline frame may come while a get is out
    feed.signalled("e1", head)
    while len(seen) < head:
        answer()
        seen += [r.position for r in drain(feed)]
    assert seen == list(range(1, head + 1))
    assert feed.gaps == []


# -- results of filters: positions have holes ---------------------------------------------------


def holed(
    after: int, upto: int, head: int, *positions: int, asked: bool = True
) -> ResultsFrame[Any]:
    results = [ResultInfo(p, 0.0, p) for p in positions]
    return frame(after, upto, head, asked=asked, results=results)


def opened_filter(prefetch: int = 10, **changes: Any) -> Feed:
    feed = Feed(prefetch)
    feed.opened(info(channel="dataset/reports", **changes))
    return feed


def test_holes_between_a_filters_results_are_no_gaps() -> None:
    feed = opened_filter(marker=10, head=30)
    feed.arrived(holed(10, 30, 30, 13, 19))
    assert [(r.position, r.gap) for r in drain(feed)] == [(13, None), (19, None)]
    assert feed.position == 30
    assert feed.gaps == []
    assert feed.wanted() is None


def test_an_answer_without_matches_moves_a_filters_feed_on() -> None:
    feed = opened_filter(marker=10, head=30)
    assert feed.wanted() is not None
    feed.arrived(holed(10, 30, 30))
    assert feed.position == 30
    assert feed.wanted() is None


def test_inline_results_without_room_are_not_passed_over() -> None:
    feed = opened_filter(2, marker=10)
    feed.arrived(holed(10, 25, 25, 13, 19, 25, asked=False))
    assert feed.position == 19
    drain(feed)
    wanted = feed.wanted()
    assert wanted is not None
    assert wanted.after == 19


def test_what_a_filters_log_lost_is_told_with_the_next_result() -> None:
    feed = opened_filter(marker=10, head=40)
    feed.arrived(msgspec.structs.replace(holed(10, 40, 40, 35), gap=Missing(11, 30)))
    (result,) = drain(feed)
    assert result.gap is not None
    assert (result.gap.first, result.gap.last) == (11, 30)


def test_a_confirmation_of_a_past_epoch_says_nothing_of_this_one() -> None:
    """Else acknowledgements up to there would never be sent."""
    feed = Feed(10)
    feed.opened(info(epoch="e2", marker=0, head=2))
    feed.confirmed("e1", 8)
    feed.opened(info(epoch="e2", marker=0, head=2))
    feed.arrived(frame(0, 2, 2, epoch="e2"))
    feed.acknowledge(drain(feed)[-1])
    assert feed.acknowledgement() == ("e2", 2)


@given(
    st.lists(st.integers(1, 40), unique=True).map(sorted),
    st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(1, 40)), max_size=30),
    st.integers(1, 5),
)
def test_a_filters_feed_gives_each_match_once_in_order(
    there: list[int], steps: list[tuple[bool, int, int]], prefetch: int
) -> None:
    """Inline frames come as they like, repeated and with holes before them; gets are answered."""
    feed = opened_filter(prefetch)
    got: list[int] = []

    def answer() -> bool:
        wanted = feed.wanted()
        if wanted is None:
            return False
        some = [p for p in there if p > wanted.after][: wanted.limit]
        upto = some[-1] if len(some) == wanted.limit else 40
        feed.arrived(holed(wanted.after, upto, 40, *some))
        return True

    for inline, after, more in steps:
        if inline:
            upto = min(after + more, 40)
            some = [p for p in there if after < p <= upto]
            feed.arrived(holed(after, upto, upto, *some, asked=False))
        else:
            feed.signalled("e1", after)
            answer()
        if more % 2:
            got += [result.position for result in drain(feed)]
    feed.signalled("e1", 40)
    got += [result.position for result in drain(feed)]
    while answer():
        got += [result.position for result in drain(feed)]
    assert got == there
    assert feed.gaps == []


def with_gap_at(feed: Feed, position: int) -> None:
    said = {"cause": "no such index", "dataset": "reports", "first": 60, "end": 61, "records": 1}
    results = [ResultInfo(p, 0.0, {"_gap": said} if p == position else p) for p in (1, 2, 3)]
    feed.arrived(frame(0, 3, 3, results=results))


def test_a_result_that_stands_for_lost_ones_is_a_gap_and_not_a_result() -> None:
    feed, told = Feed(10), list[Gap]()
    feed.on_gap = told.append
    feed.opened(info(head=3))
    with_gap_at(feed, 2)
    first, third = drain(feed)
    assert (first.position, third.position) == (1, 3)
    assert first.gap is None
    (gap,) = feed.gaps
    assert told == [gap]
    assert third.gap == gap
    assert (gap.first, gap.last, gap.reason) == (2, 2, "no such index")
    assert gap.records is not None
    assert (gap.records.dataset, gap.records.first) == ("reports", 60)


def test_a_gap_at_the_end_is_acknowledged_with_what_came_before_it() -> None:
    feed = Feed(10)
    feed.opened(info(head=3))
    with_gap_at(feed, 3)
    assert feed.acknowledgement() is None
    first, second = drain(feed)
    feed.acknowledge(first)
    assert feed.acknowledgement() == ("e1", 1)
    feed.acknowledge(second)
    assert feed.acknowledgement() == ("e1", 3)


def test_a_gap_at_the_beginning_is_acknowledged_by_itself() -> None:
    feed = Feed(10)
    feed.opened(info(head=3))
    with_gap_at(feed, 1)
    assert feed.acknowledgement() == ("e1", 1)
