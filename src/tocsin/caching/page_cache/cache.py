"""Which pages a broker keeps: the policies of the *delivery* paper over pushes and requests.

Sans-I/O. Time is the number of the operation, twice: in between, pages grow older. What a page was
worth to its readers is remembered after it is evicted (delivery 2.2.1), until `remove` says that
it is gone for good.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from tocsin.caching.page_cache.observer import Observer
from tocsin.caching.page_cache.portion import NEVER, Held, Portion
from tocsin.caching.page_cache.steps import PageCounters, Step
from tocsin.errors import InvalidInput
from tocsin.policies.page import (
    NOTIFIED_BROWSED,
    PUSHED_REQUESTED,
    WHOLE,
    Event,
    PagePolicy,
    Rule,
    limits,
    portion_names,
)
from tocsin.policies.page.design import least_bytes
from tocsin.policies.registry import bound

K = TypeVar("K", bound=Hashable)
FIRST, SECOND = range(2)


class PageCache(Generic[K]):
    """`cost` is what a fetch costs. There is one publisher, so it cancels (delivery 2.1)."""

    def __init__(self, policy: PagePolicy, capacity_bytes: int, *, cost: float = 1.0) -> None:
        self.counters = PageCounters()
        self._cost = cost
        self._known: dict[K, Held] = {}
        self._operation = 0
        self._now = 0
        self._observer: Observer[K] | None = None  # of the last policy that keeps state
        self._divide(policy, capacity_bytes)

    def _divide(self, policy: PagePolicy, capacity_bytes: int) -> None:
        if capacity_bytes < 0:
            raise InvalidInput(
                f"the capacity is {capacity_bytes} bytes", field="capacity", hint="0 or more"
            )
        rules = self._rules(policy)
        self.policy = policy
        self.capacity_bytes = capacity_bytes
        self._least_bytes = least_bytes(policy, capacity_bytes)
        self._names = portion_names(policy)
        first, second = limits(policy, capacity_bytes)
        self._portions: tuple[Portion[K], Portion[K]] = (
            Portion(rules[FIRST], first, self._cost, FIRST),
            Portion(rules[SECOND], second, self._cost, SECOND),
        )

    def _rules(self, policy: PagePolicy) -> list[Rule]:
        """As portions call them. What a policy has observed stays while others without state are
        tried, and it goes on observing."""
        frequency: Callable[..., Any] = partial(bound, state=None, values=policy.values)
        if policy.state is not None:
            if self._observer is None or not self._observer.is_of(policy):
                self._observer = Observer(policy, self._known, self._operation)
            frequency = self._observer.frequency
        return [
            replace(rule, frequency=frequency(rule.frequency))
            for rule in (policy.first, policy.second)
        ]

    def __contains__(self, page: object) -> bool:
        return any(page in portion.pages for portion in self._portions)

    def __len__(self) -> int:
        return sum(len(portion.pages) for portion in self._portions)

    @property
    def size_bytes(self) -> int:
        return self._portions[FIRST].size_bytes + self._portions[SECOND].size_bytes

    @property
    def portions(self) -> dict[str, tuple[int, int]]:
        """Bytes and limit of each portion, by its name; of a cache that is not divided, one."""
        there = self._portions[:1] if self.policy.layout == WHOLE else self._portions
        return {
            name: (portion.size_bytes, portion.limit_bytes)
            for name, portion in zip(self._names, there, strict=False)
        }

    def size_of(self, page: K) -> int | None:
        """None: it is not there."""
        held = self._known.get(page)
        return None if held is None or held.portion < 0 else held.size_bytes

    def is_superseded(self, page: K) -> bool:
        return page in self._known and self._known[page].superseded

    def portion_of(self, page: K) -> str | None:
        """None: it is not there."""
        held = self._known.get(page)
        return None if held is None or held.portion < 0 else self._names[held.portion]

    # -- operations --------------------------------------------------------------------------------

    def publish(self, page: K, size_bytes: int, subscriptions: int) -> Step[K]:
        """A page was made that so many subscriptions here matched: is it stored at once? If the
        same page is published again, the last word on its subscriptions counts."""
        self._begin()
        self.counters.publications += 1
        held = self._seen(page, size_bytes, subscriptions)
        if not self.policy.pushes or subscriptions < 1 or held.superseded:
            return Step("none")
        portion = self._portions[FIRST]
        if held.portion >= 0:
            if held.portion == FIRST:
                portion.value_anew(page, held, self._now)
            return Step("none")
        held.accesses = 0
        evicted = self._place(portion, page, held)
        if evicted is None and self.policy.layout == PUSHED_REQUESTED:
            evicted = self._place_with_bytes_of_stale(page, held)
        if evicted is None:
            self.counters.aborted += 1
            return Step("aborted")
        self.counters.stored += 1
        return Step("stored", evicted)

    def request(self, page: K, size_bytes: int, notification: bool) -> Step[K]:
        """Somebody opens a page, led by a notification or browsing."""
        self._begin()
        held = self._seen(page, size_bytes)
        counters = self.counters
        counters.requests += 1
        counters.request_bytes += held.size_bytes
        if notification:
            held.notified += 1
        else:
            held.browsed += 1
        self._tell(held, Event.NOTIFIED if notification else Event.BROWSED)
        if held.portion >= 0:
            counters.hits += 1
            counters.hit_bytes += held.size_bytes
            return Step("hit", self._hit(page, held, notification))
        evicted = None if held.superseded else self._missed(page, held, notification)
        if evicted is None:
            counters.miss_not_stored += 1
            return Step("miss-not-stored")
        counters.miss_stored += 1
        return Step("miss-stored", evicted)

    def superseded(self, page: K, is_so: bool = True) -> None:
        """A newer version of the same story exists. This one is uninteresting from now on: it
        leaves before all others when room is needed, and is not stored again, unless it becomes
        the newest version once more."""
        held = self._known.setdefault(page, Held())
        self._begin()
        held.superseded = is_so
        if held.portion >= 0:
            self._portions[held.portion].value_anew(page, held, self._now)

    def remove(self, page: K) -> bool:
        """The page is gone for good (or its bytes were damaged): forget it. Was it there?"""
        held = self._known.pop(page, None)
        if held is not None and held.born_at != NEVER:
            self._tell(held, Event.REMOVED)
            held.born_at = NEVER
        if held is None or held.portion < 0:
            return False
        self._portions[held.portion].take_out(page)
        self.counters.removed += 1
        return True

    def set_policy(
        self, policy: PagePolicy, capacity_bytes: int | None = None
    ) -> list[tuple[K, str]]:
        """Another policy or capacity. Pages are valued anew and stay, the most valuable first,
        while they fit into the portion that is theirs now; the others are evicted. Ages begin at
        0."""
        before, names = self._portions, self._names
        ranked = [
            (held.value, held.set_at, portion.number, key)
            for portion in before
            for key, held in portion.pages.items()
        ]
        ranked.sort(key=lambda entry: entry[:2])
        self._divide(policy, self.capacity_bytes if capacity_bytes is None else capacity_bytes)
        evicted = []
        for _, _, number, key in reversed(ranked):
            held = before[number].take_out(key)
            portion = self._portions[self._home(held)]
            if held.size_bytes <= portion.free_bytes:
                portion.put(key, held, held.set_at)
            else:
                evicted.append((key, names[number]))
                self._count_evicted(held)
        return evicted[::-1]

    # -- rules -------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """An operation begins. Pages that come to another age with it are valued anew first."""
        self._operation += 1
        self._now += 2
        if self._observer is not None:
            in_force = self.policy.state is not None
            for key, held in self._observer.begin(self._operation):
                if in_force and held.portion >= 0 and not held.superseded:
                    self._portions[held.portion].value_anew(key, held, self._now - 1)

    def _seen(self, page: K, size_bytes: int, subscriptions: int | None = None) -> Held:
        held = self._known.get(page)
        if held is None:
            held = self._known[page] = Held()
        if held.portion < 0:
            held.size_bytes = max(1, size_bytes)  # an empty page takes a byte: values are finite
        before = held.subscriptions
        if subscriptions is not None:
            held.subscriptions = subscriptions
        if held.born_at == NEVER:
            held.born_at = self._operation
            if self._observer is not None:
                self._observer.born(page, held, self._operation)
        elif subscriptions is not None:
            self._tell(held, Event.PUBLISHED, before)
        return held

    def _tell(self, held: Held, event: Event, before: int = 0) -> None:
        if self._observer is not None:
            self._observer.tell(held, event, self._operation, before)

    def _hit(self, page: K, held: Held, notification: bool) -> list[tuple[K, str]]:
        if held.superseded:
            return []
        layout = self.policy.layout
        if layout == PUSHED_REQUESTED and held.portion == FIRST:
            return self._move(page, held)
        if layout == NOTIFIED_BROWSED and notification != (held.portion == FIRST):
            return []  # each portion is read-only for the other's accesses (2.3.2)
        held.accesses += 1
        self._portions[held.portion].value_anew(page, held, self._now)
        return []

    def _missed(self, page: K, held: Held, notification: bool) -> list[tuple[K, str]] | None:
        layout = self.policy.layout
        second = layout == PUSHED_REQUESTED or (layout == NOTIFIED_BROWSED and not notification)
        portion = self._portions[SECOND if second else FIRST]
        held.accesses = 1
        return self._place(portion, page, held)

    def _place(self, portion: Portion[K], page: K, held: Held) -> list[tuple[K, str]] | None:
        """None: it is not stored, and nothing has changed (delivery 2.2.1; GD*: delivery 2.1)."""
        size_bytes = held.size_bytes
        if size_bytes > portion.limit_bytes:
            return None
        needed = size_bytes - portion.free_bytes
        if needed > 0 and portion.rule.aborts:
            below = portion.bytes_below(portion.worth_now(held), needed)
            if below < needed:
                return None
        evicted = self._evict_until(portion, size_bytes)
        self._put(portion, page, held)
        return evicted

    def _place_with_bytes_of_stale(self, page: K, held: Held) -> list[tuple[K, str]] | None:
        """The push portion cannot place a page: stale pages of the access portion are dropped, and
        their bytes are the push portion's from now on. Only as many as make it fit after all that
        is worth less has left, and only within the bound."""
        pushed, requested = self._portions
        room = pushed.free_bytes
        room += pushed.bytes_below(pushed.worth_now(held), held.size_bytes - room)
        most = requested.limit_bytes - self._least_bytes
        stale = requested.stale(held.size_bytes - room, most)
        if not stale:
            return None
        for key in stale:
            dropped = requested.take_out(key)
            self._count_evicted(dropped)
            requested.limit_bytes -= dropped.size_bytes
            pushed.limit_bytes += dropped.size_bytes
        evicted = [(key, self._names[SECOND]) for key in stale]
        evicted += self._evict_until(pushed, held.size_bytes)
        self._put(pushed, page, held)
        return evicted

    def _move(self, page: K, held: Held) -> list[tuple[K, str]]:
        """A pushed page is asked for: it belongs to the access portion now, with its bytes. If the
        bound forbids that, GD* places it there; if it is larger than that portion, it stays."""
        pushed, requested = self._portions
        with_bytes = pushed.limit_bytes - held.size_bytes >= self._least_bytes
        if not with_bytes and held.size_bytes > requested.limit_bytes:
            return []
        pushed.take_out(page)
        if with_bytes:
            pushed.limit_bytes -= held.size_bytes
            requested.limit_bytes += held.size_bytes
        evicted = self._evict_until(requested, held.size_bytes)
        held.accesses = 1
        self._put(requested, page, held)
        return evicted

    def _evict_until(self, portion: Portion[K], free_bytes: int) -> list[tuple[K, str]]:
        evicted = portion.evict_until(free_bytes, self._now)
        for key in evicted:
            self._count_evicted(self._known[key])
        return [(key, self._names[portion.number]) for key in evicted]

    def _put(self, portion: Portion[K], page: K, held: Held) -> None:
        portion.put(page, held, self._now)
        self.counters.max_bytes = max(self.counters.max_bytes, self.size_bytes)

    def _count_evicted(self, held: Held) -> None:
        self.counters.evicted += 1
        self.counters.evicted_bytes += held.size_bytes

    def _home(self, held: Held) -> int:
        """The portion of a page that was stored under another policy."""
        if self.policy.layout == PUSHED_REQUESTED:
            return SECOND if held.accesses else FIRST
        if self.policy.layout == NOTIFIED_BROWSED:
            return FIRST if held.subscriptions > held.notified else SECOND
        return FIRST
