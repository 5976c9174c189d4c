"""The compiled tree of brokers is the live routing core and its caches, step for step, under every
policy."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.test_topology import grown
from tocsin.lab.simulators.overlay.live import play_live
from tocsin.lab.simulators.overlay.story import Happening, play_compiled
from tocsin.policies.message import message_policy_names, parse_message_policy


def stories(seed: int, brokers: int, messages: int) -> list[Happening]:
    """Each message is published once, sooner or later, among clients that come and go."""
    chance = random.Random(seed)
    there: list[tuple[int, int]] = []
    waiting = list(range(messages))
    found = []
    for _ in range(chance.randint(10, 60)):
        act = chance.random()
        if waiting and act < 0.25:
            found.append(Happening("publishes", chance.randrange(brokers), waiting.pop()))
        elif there and act < 0.55:
            broker, message = there.pop(chance.randrange(len(there)))
            found.append(Happening("leaves", broker, message))
        else:
            there.append((chance.randrange(brokers), chance.randrange(messages)))
            found.append(Happening("comes", *there[-1]))
    return found


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 8),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from(message_policy_names()),
)
def test_kernel_equals_core_step_for_step(
    seed: int, brokers: int, messages: int, slots: int, name: str
) -> None:
    story, tree = stories(seed, brokers, messages), grown(seed, brokers)
    policy = parse_message_policy(name)
    compiled = play_compiled(story, tree, messages, slots, policy)
    live = play_live(story, tree, messages, slots, policy)
    for happening, one, other in zip(story, compiled, live, strict=True):
        assert one == other, happening
