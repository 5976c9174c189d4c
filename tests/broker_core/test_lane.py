"""The lane keeps the router in step with what the core serves."""

from __future__ import annotations

from broker_core.filters import EVERYTHING, FilterBench, filtered
from tocsin.broker.effects import Signal
from tocsin.broker.lane import Lane
from tocsin.caching import MessageCache
from tocsin.overlay.routing import Deliver, Fill, Gap, Publication, Router
from tocsin.policies.message import parse_message_policy

PUBLISHED = Publication("reports", 50, {"level": 4}, 3.5)


def _lane() -> Lane:
    policy = parse_message_policy("sel-sub-fifo")
    return Lane(Router("b", MessageCache(policy, 8), policy.reaches))


def test_the_router_asks_for_what_the_core_serves_from_where_it_is() -> None:
    bench, lane = FilterBench(), _lane()
    lane.follow(bench.core)
    assert lane.router.marker(8) == 10
    assert lane.router.route("reports").tables.asked(8) == {EVERYTHING}
    assert lane.follow(bench.core) == []


def test_what_nobody_has_any_longer_is_not_asked_for() -> None:
    bench, lane = FilterBench(), _lane()
    lane.follow(bench.core)
    bench.core.unsubscribed(6, 1.0)
    lane.follow(bench.core)
    assert not lane.router.route("reports").tables.asks(8)


def test_another_epoch_is_asked_for_anew() -> None:
    bench, lane = FilterBench(), _lane()
    lane.follow(bench.core)
    bench.core.subscribed(filtered(7, epoch="G", head=40), bench.core.moment, 1.0)
    assert lane.apply(bench.core, [Deliver([8], PUBLISHED)], 1.0) == ([], [])
    lane.follow(bench.core)
    assert lane.router.marker(8) == 40


def test_one_that_left_and_came_back_goes_on_from_where_it_is_now() -> None:
    """The cluster's answer may be older than what was routed before."""
    bench, lane = FilterBench(), _lane()
    lane.follow(bench.core)
    told = lane.router.entered("reports", 10) + lane.router.published(PUBLISHED, 10)
    lane.apply(bench.core, told, 1.0)
    assert lane.router.marker(8) == 50
    asked = bench.core.moment
    again = filtered(7, head=45, marker=45)
    bench.core.connected(1, "alice", False, [again], asked, 2.0)  # 6 is over, 7 is new
    assert lane.follow(bench.core) == [Fill(1, "reports", 45, 50)]
    effects, _ = lane.apply(bench.core, lane.router.filled("reports", 1, [PUBLISHED]), 2.0)
    assert effects == [Signal(8, "F", 50, [1])]


def test_another_core_is_followed_from_the_beginning() -> None:
    bench, other, lane = FilterBench(), FilterBench(), _lane()
    lane.follow(bench.core)
    bench.routed(50)
    assert lane.apply(other.core, [Deliver([8], PUBLISHED)], 1.0) == ([], [])
    lane.follow(other.core)
    assert lane.router.marker(8) == 10
    lane.follow(FilterBench().core)
    assert lane.router.marker(8) == 10


def test_what_is_delivered_becomes_a_result_with_its_position_and_time() -> None:
    bench, lane = FilterBench(), _lane()
    lane.follow(bench.core)
    effects, outward = lane.apply(bench.core, [Deliver([8, 9], PUBLISHED)], 1.0)
    assert (effects, outward) == ([Signal(8, "F", 50, [1])], [])
    (result,) = bench.core.cache.contents(8)
    assert (result.position, result.created_at, result.payload) == (50, 3.5, b'{"level":4}')


def test_what_is_lost_is_passed_over_and_the_rest_is_left_to_do() -> None:
    bench, lane = FilterBench(), _lane()
    lane.follow(bench.core)
    fill = Fill(1, "reports", 10, 30)
    effects, outward = lane.apply(bench.core, [Gap([8, 9], "reports", 10, 20), fill], 1.0)
    assert (effects, outward) == ([Signal(8, "F", 20, [1])], [fill])
