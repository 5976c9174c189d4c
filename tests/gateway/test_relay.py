"""What waits at a gateway is handed on in one call at a time, and nothing is lost or taken twice
when calls are lost: beside a cluster that is played here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import UNSET

from tocsin.errors import (
    Forbidden,
    NotLeading,
    QuotaExceeded,
    Standby,
    TocsinError,
    Unauthenticated,
    Unavailable,
    Unconfirmed,
)
from tocsin.gateway.relay import Checked, Lost, NotTaken, Relay
from tocsin.protocol.appends import (
    Append,
    AppendOutcome,
    AppendOutcomes,
    Appends,
    EncodedRecord,
)
from tocsin.protocol.failure import error_info

AWAY = Unavailable("nobody answers")


class Leader:
    """Takes requests into a list, each under its key once; `before` is what happens to the next
    calls, first that, then the taking."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.keys: set[str] = set()
        self.calls: list[Appends] = []
        self.before: list[Callable[[], Awaitable[None]]] = []
        self.behind: list[Exception] = []
        self.outcomes: dict[bytes, TocsinError | AppendOutcome] = {}
        self.under_way = self.most_under_way = 0

    async def send(self, appends: Appends) -> AppendOutcomes:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(0)
            if self.before:
                await self.before.pop(0)()
            self.calls.append(appends)
            outcomes = [self._take(append) for append in appends.appends]
            if self.behind:
                raise self.behind.pop(0)
            return AppendOutcomes(outcomes)
        finally:
            self.under_way -= 1

    def _take(self, append: Append) -> AppendOutcome:
        if not append.good:
            return AppendOutcome()
        (record,) = append.good
        given = self.outcomes.pop(record.declared, None)
        if isinstance(given, AppendOutcome):
            return given
        if given is not None:
            return AppendOutcome(error=error_info(given))
        if append.key is UNSET or append.key not in self.keys:
            self.taken.append(record.declared)
        if append.key is not UNSET:
            self.keys.add(append.key)
        return AppendOutcome(end=len(self.taken))


def request(name: str, key: str | None = "", size: int = 0, subject: str = "ann") -> Checked:
    """`key`: "": its name; None: none."""
    record = name.encode() + b" " * size
    given: Any = UNSET if key is None else key or name
    append = Append("reports", 1.0, 0, [EncodedRecord(record)], key=given)
    return Checked(append=append, token=f"token of {subject}", subject=subject)


@asynccontextmanager
async def relaying(leader: Leader, **options: Any) -> AsyncIterator[Relay]:
    given = {"most_bytes": 1_000_000, "patience_s": 10.0, "pause_s": 0.02} | options
    async with Relay(leader.send, **given) as relay:
        yield relay


def raising(error: Exception) -> Callable[[], Awaitable[None]]:
    async def fail() -> None:
        raise error

    return fail


async def test_what_waits_meanwhile_goes_in_one_call_with_each_token_once() -> None:
    leader, going_on = Leader(), asyncio.Event()

    async def slow() -> None:
        await going_on.wait()

    leader.before = [slow]
    async with relaying(leader) as relay:
        first = asyncio.create_task(relay.append(request("first")))
        await asyncio.sleep(0.02)
        others = [
            asyncio.create_task(relay.append(request(f"{n}", subject=f"p{n % 3}")))
            for n in range(30)
        ]
        await asyncio.sleep(0.02)
        going_on.set()
        ends = [(await task).end for task in (first, *others)]
    assert ends == list(range(1, 32))
    assert leader.most_under_way == 1
    assert [len(call.appends) for call in leader.calls] == [1, 30]
    assert leader.calls[1].tokens == ["token of p0", "token of p1", "token of p2"]
    assert [append.token for append in leader.calls[1].appends[:4]] == [0, 1, 2, 0]


async def test_a_call_has_a_size_and_a_larger_request_travels_alone() -> None:
    leader = Leader()
    async with relaying(leader, call_bytes=10_000) as relay:
        sizes = (100, 3000, 3000, 30_000, 100)
        given = [request(f"{n}", size=size) for n, size in enumerate(sizes)]
        await asyncio.gather(*(relay.append(checked) for checked in given))
    assert [len(call.appends) for call in leader.calls] == [3, 1, 1]


async def test_an_answer_that_was_lost_is_asked_for_again_under_the_key() -> None:
    leader = Leader()
    leader.behind = [Lost(AWAY), Lost(AWAY)]
    async with relaying(leader) as relay:
        ends = await asyncio.gather(*(relay.append(request(name)) for name in "abc"))
    assert leader.taken == [b"a", b"b", b"c"]
    assert len(leader.calls) == 3
    assert all(outcome.end == 3 for outcome in ends)


async def test_without_a_key_a_lost_answer_leaves_doubt_and_is_not_asked_for_again() -> None:
    leader = Leader()
    leader.behind = [Lost(AWAY)]
    async with relaying(leader) as relay:
        keyed = asyncio.create_task(relay.append(request("keyed")))
        with pytest.raises(Unconfirmed, match="nobody answers; it is not known"):
            await relay.append(request("without", key=None))
        await keyed
    assert sorted(leader.taken) == [b"keyed", b"without"]


async def test_who_only_asks_may_always_be_asked_for_again() -> None:
    leader = Leader()
    leader.behind = [Lost(AWAY)]
    asking = Checked(append=Append("reports", 1.0, 0), token="token", subject="ann")
    async with relaying(leader) as relay:
        assert await relay.append(asking) == AppendOutcome()
    assert len(leader.calls) == 2


@pytest.mark.parametrize("key", ["", None])
async def test_while_nobody_leads_requests_wait_and_are_taken_once_in_their_order(
    key: str | None,
) -> None:
    leader = Leader()

    async def another_leads() -> None:
        await asyncio.sleep(0.012)  # some come while it is asked
        raise NotTaken(Standby("another leads"))

    leader.before = [another_leads] * 3
    async with relaying(leader) as relay:
        tasks = []
        for n in range(5):
            tasks.append(asyncio.create_task(relay.append(request(f"{n}", key))))
            await asyncio.sleep(0.005)
        await asyncio.gather(*tasks)
        assert relay.away is None
    assert leader.taken == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_single_request_that_met_a_leader_on_its_way_out_goes_to_the_next() -> None:
    leader = Leader()
    leader.outcomes = {b"a": NotLeading("it has lost its store"), b"c": Standby("not yet")}
    async with relaying(leader) as relay:
        await asyncio.gather(*(relay.append(request(name)) for name in "abc"))
        leader.outcomes = {b"d": NotLeading("it has lost its store")}
        with pytest.raises(Unconfirmed):  # it may have been taken before
            await relay.append(request("d", key=None))
    assert sorted(leader.taken) == [b"a", b"b", b"c"]


async def test_a_refusal_is_the_publishers_alone_and_of_its_kind() -> None:
    leader = Leader()
    leader.outcomes = {
        b"a": Forbidden("no role of ann may", field="dataset"),
        b"b": QuotaExceeded("too much", retry_after_s=7, field="publications"),
        b"d": Unauthenticated("the token was revoked"),
        b"e": Unavailable("the log is behind"),
    }
    async with relaying(leader) as relay:
        answers = await asyncio.gather(
            *(relay.append(request(name)) for name in "abcde"), return_exceptions=True
        )
    assert [type(answer) for answer in answers] == [
        *(Forbidden, QuotaExceeded, AppendOutcome, Unauthenticated, Unavailable)
    ]
    assert isinstance(answers[1], QuotaExceeded)
    assert (answers[1].retry_after_s, answers[1].field) == (7, "publications")
    assert leader.taken == [b"c"]
    assert len(leader.calls) == 1


@pytest.mark.parametrize(
    "then", [QuotaExceeded("too much", retry_after_s=1), AppendOutcome(stale=True)]
)
async def test_what_may_have_been_taken_is_not_told_as_refused(
    then: TocsinError | AppendOutcome,
) -> None:
    leader = Leader()
    leader.behind = [Lost(AWAY)]
    async with relaying(leader) as relay:
        publishing = asyncio.create_task(relay.append(request("a")))
        while not leader.calls:  # noqa: ASYNC110
            await asyncio.sleep(0)
        leader.outcomes = {b"a": then}
        with pytest.raises(Unconfirmed):
            await publishing


async def test_a_stale_request_is_told_as_such_when_nothing_was_done() -> None:
    leader = Leader()
    leader.outcomes = {b"a": AppendOutcome(stale=True)}
    async with relaying(leader) as relay:
        stale, taken = await asyncio.gather(*(relay.append(request(name)) for name in "ab"))
    assert stale.stale
    assert not taken.stale
    assert leader.taken == [b"b"]


async def test_when_nobody_leads_for_long_publishers_are_told_so_and_held_bytes_are_free() -> None:
    leader = Leader()
    leader.before = [raising(NotTaken(AWAY))] * 1000
    async with relaying(leader, patience_s=0.2) as relay:
        with pytest.raises(Unavailable, match="nobody answers") as told:
            await relay.append(request("a"))
        assert not isinstance(told.value, Unconfirmed)
        assert told.value.retry_after_s == 1
        assert (relay.held_bytes, relay.waiting) == (0, 0)
        leader.before = []
        await relay.append(request("b"))
    assert leader.taken == [b"b"]


async def test_a_call_that_never_ends_leaves_doubt_for_what_it_has_alone() -> None:
    leader = Leader()

    async def for_ever() -> None:
        await asyncio.Event().wait()

    leader.before = [for_ever]
    async with relaying(leader, patience_s=0.2) as relay:
        in_call = asyncio.create_task(relay.append(request("a")))
        await asyncio.sleep(0.02)
        behind = asyncio.create_task(relay.append(request("b")))
        answers = await asyncio.gather(in_call, behind, return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unconfirmed, Unavailable]


async def test_more_than_it_has_room_for_is_refused_at_once_and_half_for_one_publisher() -> None:
    leader = Leader()
    leader.before = [raising(NotTaken(AWAY))] * 1000
    async with relaying(leader, most_bytes=100_000) as relay:
        held = [asyncio.create_task(relay.append(request("a", size=40_000)))]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="as it has room for") as full:
            await relay.append(request("b", size=20_000))
        assert full.value.retry_after_s == 1
        held.append(asyncio.create_task(relay.append(request("c", size=40_000, subject="bob"))))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="as it has room for"):
            await relay.append(request("d", size=20_000, subject="eve"))
        leader.before = []
        await asyncio.gather(*held)
        assert relay.held_bytes == 0
        await relay.append(request("e", size=40_000))
    assert len(leader.taken) == 3


async def test_a_gateway_that_is_refused_says_so_to_all_and_goes_on() -> None:
    leader = Leader()
    leader.before = [raising(Forbidden("this token of 'gateway_1' lacks the scope gateway"))]
    async with relaying(leader) as relay:
        with pytest.raises(Unavailable, match="the cluster refuses this gateway: this token"):
            await relay.append(request("a"))
        await relay.append(request("b"))
    assert leader.taken == [b"b"]


async def test_a_publisher_who_leaves_before_the_call_is_not_handed_on() -> None:
    leader = Leader()
    leader.before = [raising(NotTaken(AWAY))] * 3
    async with relaying(leader) as relay:
        leaving = asyncio.create_task(relay.append(request("a")))
        staying = asyncio.create_task(relay.append(request("b")))
        await asyncio.sleep(0.001)
        leaving.cancel()
        await staying
        assert relay.held_bytes == 0
    assert leader.taken == [b"b"]


async def test_a_gateway_whose_call_hangs_holds_up_no_other() -> None:
    leader = Leader()

    async def for_ever() -> None:
        await asyncio.Event().wait()

    leader.before = [for_ever]
    async with relaying(leader) as hanging, relaying(leader) as other:
        stuck = asyncio.create_task(hanging.append(request("a")))
        await asyncio.sleep(0.02)
        await other.append(request("b"))
        stuck.cancel()
    assert leader.taken == [b"b"]
