"""The compiled page cache does what the live one does: operation by operation, every policy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from caching.made_up_pages import CAPACITIES, operations
from tocsin.errors import InvalidInput
from tocsin.lab.simulators.page_cache.live import run_live
from tocsin.lab.simulators.page_cache.outcome import PageOutcome
from tocsin.lab.simulators.page_cache.simulator import simulate, simulate_steps
from tocsin.lab.workloads.pages.operations import Operations
from tocsin.policies.page import page_policy_names, parse_page_policy

ALL = [*page_policy_names(), "gdstar(2)", "sg2(2)", "dc(2)", "dc-ta(0.25)", "dc-ta(0.75,2)"]


def timeless(outcome: PageOutcome) -> PageOutcome:
    return replace(outcome, seconds=0.0)


@pytest.mark.parametrize("policy", ALL)
@settings(max_examples=60)
@given(done=operations(), capacity=CAPACITIES)
def test_kernel_equals_cache(policy: str, done: Operations, capacity: int) -> None:
    chosen = parse_page_policy(policy)
    outcome, steps = simulate_steps(done, chosen, capacity)
    live, lived = run_live(done, chosen, capacity)
    assert list(steps.in_words()) == list(lived.in_words())
    assert timeless(outcome) == timeless(live)
    assert timeless(simulate(done, chosen, capacity)) == timeless(live)


@pytest.mark.parametrize("policy", ALL)
def test_kernel_equals_cache_in_a_long_run(policy: str) -> None:
    """Long enough for entries that no longer hold to be cleared away, and for DC to move bytes."""
    random = np.random.default_rng(7)
    pages, length = 200, 20_000
    size = np.maximum(1, random.lognormal(3, 1, pages)).astype(np.int64)
    page = np.minimum(random.zipf(1.3, length) - 1, pages - 1).astype(np.int32)
    page[::3] = random.integers(0, pages, len(page[::3]))
    kind = random.choice(5, length, p=[0.3, 0.3, 0.39, 0.005, 0.005]).astype(np.uint8)
    subscriptions = random.integers(0, 20, length).astype(np.int32)
    done = Operations(kind, page, size[page], subscriptions, pages)
    chosen = parse_page_policy(policy)
    for capacity in (int(size.sum()) // 10, int(size.sum()) // 3):
        outcome, steps = simulate_steps(done, chosen, capacity)
        live, lived = run_live(done, chosen, capacity)
        assert timeless(outcome) == timeless(live)
        assert np.array_equal(steps.outcome, lived.outcome)
        assert np.array_equal(steps.evicted, lived.evicted)
        assert np.array_equal(steps.portion, lived.portion)
        assert np.array_equal(steps.until, lived.until)
        if policy.startswith("dc") and not policy.startswith("dc-ta"):
            assert set(steps.portion.tolist()) == {0, 1}


def test_a_negative_capacity_is_refused() -> None:
    nothing = np.zeros(0, np.int32)
    none = Operations(nothing.astype(np.uint8), nothing, nothing.astype(np.int64), nothing, 0)
    with pytest.raises(InvalidInput, match="-5 bytes"):
        simulate(none, parse_page_policy("dc"), -5)
    assert simulate(none, parse_page_policy("dc"), 0).requests == 0
