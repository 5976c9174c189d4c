"""The router is kept in step with what the core serves."""

from __future__ import annotations

from broker_core.filters import EVERYTHING, FilterBench, filtered
from tocsin.broker.machine.effects import Signal
from tocsin.broker.machine.routed import RoutedSubscriptions
from tocsin.caching import MessageCache
from tocsin.overlay.routing import Deliver, Fill, Gap, Publication, Router
from tocsin.policies.message import parse_message_policy

PUBLISHED = Publication("reports", 50, {"level": 4}, 3.5)


def _following() -> tuple[FilterBench, RoutedSubscriptions]:
    policy = parse_message_policy("sel-sub-fifo")
    bench = FilterBench()
    router = Router("b", MessageCache(policy, 8), policy.reaches)
    routed = RoutedSubscriptions(bench.core, router)
    routed.follow()
    return bench, routed


def test_the_router_asks_for_what_the_core_serves_from_where_it_is() -> None:
    _, routed = _following()
    assert routed.router.marker(8) == 10
    assert routed.router.route("reports").tables.asked(8) == {EVERYTHING}
    assert routed.follow() == []


def test_what_nobody_has_any_longer_is_not_asked_for() -> None:
    bench, routed = _following()
    bench.core.unsubscribed(6, 1.0)
    routed.follow()
    assert not routed.router.route("reports").tables.asks(8)


def test_another_epoch_is_asked_for_anew() -> None:
    bench, routed = _following()
    bench.core.subscribed(filtered(7, epoch="G", head=40), bench.core.query_token, 1.0)
    assert routed.deliver(Deliver([8], PUBLISHED), 1.0) == []
    routed.follow()
    assert routed.router.marker(8) == 40


def test_one_that_left_and_came_back_goes_on_from_where_it_is_now() -> None:
    """The cluster's answer may be older than what was routed before."""
    bench, routed = _following()
    routed.router.entered("reports", 10)
    (delivered,) = routed.router.published(PUBLISHED, 10)
    assert isinstance(delivered, Deliver)
    routed.deliver(delivered, 1.0)
    assert routed.router.marker(8) == 50
    asked = bench.core.query_token
    again = filtered(7, head=45, marker=45)
    bench.core.connected(1, "alice", False, [again], asked, 2.0)  # 6 is over, 7 is new
    assert routed.follow() == [Fill(1, "reports", 45, 50)]
    (delivered,) = routed.router.filled("reports", 1, [PUBLISHED])
    assert isinstance(delivered, Deliver)
    assert routed.deliver(delivered, 2.0) == [Signal(8, "F", 50, [1])]


def test_what_is_delivered_becomes_a_result_with_its_position_and_time() -> None:
    bench, routed = _following()
    assert routed.deliver(Deliver([8, 9], PUBLISHED), 1.0) == [Signal(8, "F", 50, [1])]
    (result,) = bench.core.cache.contents(8)
    assert (result.position, result.created_at, result.payload) == (50, 3.5, b'{"level":4}')


def test_what_is_lost_is_passed_over() -> None:
    _, routed = _following()
    assert routed.lose(Gap([8, 9], "reports", 10, 20), 1.0) == [Signal(8, "F", 20, [1])]
