"""How many slots must each broker's message cache have, under which policy, so that a share of all
messages survives for so long?

The wide model answers for each policy; the best answer is simulated, and corrected until the
simulation agrees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tocsin.errors import InvalidInput
from tocsin.lab.models.lifetime import Lifetime
from tocsin.lab.models.rates import rates_of
from tocsin.lab.models.wide import wide
from tocsin.lab.simulators.means import Mean
from tocsin.lab.simulators.message_cache.measures import survives
from tocsin.lab.simulators.message_cache.simulator import Lives, simulate
from tocsin.lab.workloads.messages import MOST_SLOTS, MessageLoad
from tocsin.policies.message import MessagePolicy

COARSE = (64, 10)  # slots and parts of the model
FAR_MORE = 2  # times the slots that another policy needs
CLOSE = 1.002  # two numbers of slots that need no further one between them
FEWEST_MESSAGES = 10_000
ROUNDS = 4  # of simulation and correction
SETTLED = 3  # mean lives before messages are measured …
MEASURED = 60  # … and while they are, at least: neighbours share their fate


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


def answers(wish: Wish, policies: Sequence[MessagePolicy]) -> list[Answer]:
    """For each policy, the fewest slots first; one that needs far more than another is not asked
    how many. Raises if none is enough."""
    answers: list[Answer] = []
    simple_first = sorted(
        policies, key=lambda policy: (policy.parts[0] != "all", policy.parts[2] != "nop")
    )
    for policy in simple_first:
        best = min((answer.slots for answer in answers if answer.slots), default=0)
        answers.append(_answer(wish, policy, FAR_MORE * best))
    answers.sort(
        key=lambda answer: (bool(answer.reason), answer.slots, answer.policy.parts[1] == "fld")
    )
    if not any(answer.slots for answer in answers):
        raise InvalidInput(
            f"no cache lets {wish.share:.4g} of the messages survive for {wish.for_s:g} s: "
            + "; ".join(f"{answer.policy.text}: {answer.reason}" for answer in answers),
            field="share",
            hint="ask for less, have more brokers, or a policy that keeps every message (all-…)",
        )
    return answers


def checked(wish: Wish, answer: Answer, messages: int | None, seed: int) -> Checked:
    """Simulate it; if too few messages survive, let the model aim higher by as much, and again."""
    aimed = 1.0 - wish.share
    for rounds_left in reversed(range(ROUNDS)):
        assert answer.model is not None
        load = replace(wish.load, slots=answer.slots)
        published = load.publication_rate * answer.model.mst
        lives = simulate(
            load,
            answer.policy,
            messages=messages or max(FEWEST_MESSAGES, math.ceil(MEASURED * published)),
            seed=seed,
            warm_up=math.ceil(SETTLED * published + 2 * load.slots / (1.0 - load.nobody)),
        )
        seen = survives(lives, wish.for_s)
        if seen.value >= wish.share or not rounds_left:
            break
        aimed *= (1.0 - wish.share) / (1.0 - seen.value)
        high = 2 * answer.slots
        if wish.load.brokers * high > MOST_SLOTS or _gone(wish, answer.policy, high) > aimed:
            break
        answer = _fewest(wish, answer.policy, aimed, answer.slots, high)
    return Checked(answer=answer, lives=lives, survives=seen)


def _answer(wish: Wish, policy: MessagePolicy, far: int) -> Answer:
    gone, lost = 1.0 - wish.share, rates_of(wish.load, policy).lost
    if lost >= gone:
        reason = f"{lost:.2%} of the messages have no client when published"
        return Answer(policy=policy, reason=reason)
    if far:
        if _gone(wish, policy, far) > gone:
            return Answer(policy=policy, reason=f"more than {far:,} slots")
        return _fewest(wish, policy, gone, 0, far)
    most = MOST_SLOTS // wish.load.brokers
    low, high = 0, math.ceil(wish.load.publication_rate * wish.for_s / wish.load.brokers)
    while high <= most and _gone(wish, policy, high) > gone:
        low, high = high, 2 * high
    if high > most:
        return Answer(policy=policy, reason=f"more than {most:,} slots")
    return _fewest(wish, policy, gone, low, high)


def _gone(wish: Wish, policy: MessagePolicy, slots: int) -> float:
    """The share of messages that is gone before its time."""
    return 1.0 - _model(wish, policy, slots).survives(wish.for_s)


def _model(wish: Wish, policy: MessagePolicy, slots: int) -> Lifetime:
    return wide(replace(wish.load, slots=slots), policy, *COARSE)


def _fewest(wish: Wish, policy: MessagePolicy, gone: float, low: int, high: int) -> Answer:
    """With `low` slots a larger share is gone, with `high` it is not."""
    while high - low > 1 and high > CLOSE * low:
        middle = min(max(math.ceil(math.sqrt(max(1, low) * high)), low + 1), high - 1)
        low, high = (low, middle) if _gone(wish, policy, middle) <= gone else (middle, high)
    return Answer(policy=policy, slots=high, model=_model(wish, policy, high))
