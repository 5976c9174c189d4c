"""How many slots must each broker's message cache have, under which policy, so that a share of all
messages survives for so long?

The wide model answers for each policy; the best answer is simulated, and corrected until the
simulation agrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tocsin.errors import InvalidInput
from tocsin.lab.models.lifetime import Lifetime
from tocsin.lab.models.rates import rates_of
from tocsin.lab.models.wide import wide
from tocsin.lab.simulators.message_cache.measures import Mean, survives
from tocsin.lab.simulators.message_cache.simulator import Lives, simulate
from tocsin.lab.workloads.messages import MOST_SLOTS, MessageLoad
from tocsin.policies.message import MessagePolicy

COARSE = 64  # slots of the model while searching
CLOSE = 1.005  # two numbers of slots that need no further one between them
ROUNDS = 4  # of simulation and correction
SETTLED = 3  # mean lives before messages are measured


class Wish(Struct, frozen=True, kw_only=True):
    share: float  # of the messages
    for_s: float
    load: MessageLoad  # its number of slots is what is looked for

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise InvalidInput(
                f"{self.share:.0%} of the messages", field="share", hint="between 0 and 100 %"
            )
        if not 0.0 < self.for_s < math.inf:
            raise InvalidInput(f"for {self.for_s:g} s", field="for", hint="such as 1h")


class Answer(Struct, frozen=True, kw_only=True):
    """For one policy: so many slots, or why no number of them is enough."""

    policy: MessagePolicy
    slots: int = 0
    model: Lifetime | None = None
    reason: str = ""


class Checked(Struct, frozen=True, kw_only=True):
    answer: Answer
    lives: Lives
    survives: Mean


def answers(
    wish: Wish, policies: Sequence[MessagePolicy], advance: Callable[[int], None]
) -> list[Answer]:
    """For each policy, the fewest slots first. Raises if none is enough."""
    found = []
    for policy in policies:
        found.append(_answer(wish, policy))
        advance(1)
    found.sort(key=lambda one: (bool(one.reason), one.slots))
    if not found or found[0].reason:
        raise InvalidInput(
            f"no cache lets {wish.share:.4g} of the messages survive for {wish.for_s:g} s: "
            + "; ".join(dict.fromkeys(f"{one.policy.text}: {one.reason}" for one in found)),
            field="share",
            hint="ask for less, have more brokers, or a policy that keeps every message (all-…)",
        )
    return found


def checked(wish: Wish, answer: Answer, messages: int, seed: int) -> Checked:
    """Simulate it; if too few messages survive, let the model aim higher by as much, and again."""
    aimed = 1.0 - wish.share
    for _ in range(ROUNDS):
        assert answer.model is not None
        load = replace(wish.load, slots=answer.slots)
        published = load.publication_rate * answer.model.mst
        lives = simulate(
            load,
            answer.policy,
            messages=messages,
            seed=seed,
            warm_up=math.ceil(SETTLED * published + 2 * load.slots / (1.0 - load.nobody)),
        )
        seen = survives(lives, wish.for_s)
        if seen.value >= wish.share:
            break
        aimed *= (1.0 - wish.share) / (1.0 - seen.value)
        answer = _search(wish, answer.policy, max(aimed, 1e-9), answer.slots)
        if answer.reason:
            break
    return Checked(answer=answer, lives=lives, survives=seen)


def _answer(wish: Wish, policy: MessagePolicy) -> Answer:
    lost = rates_of(wish.load, policy).lost
    if lost >= 1.0 - wish.share:
        return Answer(
            policy=policy, reason=f"{lost:.2%} of the messages have no client when published"
        )
    return _search(wish, policy, 1.0 - wish.share, 0)


def _search(wish: Wish, policy: MessagePolicy, gone: float, above: int) -> Answer:
    """The fewest slots, more than `above`, with which no larger share is gone."""
    most = MOST_SLOTS // wish.load.brokers
    known: dict[int, Lifetime] = {}

    def enough(slots: int) -> bool:
        known[slots] = wide(replace(wish.load, slots=slots), policy, COARSE)
        return 1.0 - known[slots].survives(wish.for_s) <= gone

    low = above
    high = max(above + 1, math.ceil(wish.load.publication_rate * wish.for_s / wish.load.brokers))
    while high <= most and not enough(high):
        low, high = high, 2 * high
    if high > most:
        return Answer(policy=policy, reason=f"more than {most:,} slots at each broker")
    while high - low > 1 and high > CLOSE * low:
        middle = (low + high) // 2 if low < 2 else math.ceil(math.sqrt(low * high))
        middle = min(max(middle, low + 1), high - 1)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return Answer(policy=policy, slots=high, model=known[high])
