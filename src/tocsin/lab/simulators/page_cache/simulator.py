"""A page cache of a policy and a capacity under operations, compiled."""

from __future__ import annotations

import time
from typing import Any

import numba

from tocsin.errors import InvalidInput
from tocsin.lab.jit.functions import JIT
from tocsin.lab.jit.policies import policy_callback, record_of, unused_callback
from tocsin.lab.simulators.page_cache import kernel
from tocsin.lab.simulators.page_cache.outcome import PageOutcome, Steps
from tocsin.lab.workloads.pages.operations import PUBLISH, Operations
from tocsin.policies.page import PagePolicy, limits
from tocsin.policies.page.design import least_bytes

ITEM_TYPE = numba.from_dtype(kernel.ITEM) if JIT else "item"


def simulate(
    operations: Operations, policy: PagePolicy, capacity_bytes: int, *, cost: float = 1.0
) -> PageOutcome:
    return _run(operations, policy, capacity_bytes, cost, steps=False)[0]


def simulate_steps(
    operations: Operations, policy: PagePolicy, capacity_bytes: int, *, cost: float = 1.0
) -> tuple[PageOutcome, Steps]:
    outcome, state = _run(operations, policy, capacity_bytes, cost, steps=True)
    outcomes, gone, gone_from, until = state[8:12]
    return outcome, Steps(outcomes, gone[: outcome.evicted], gone_from[: outcome.evicted], until)


def _run(
    operations: Operations, policy: PagePolicy, capacity_bytes: int, cost: float, *, steps: bool
) -> tuple[PageOutcome, Any]:
    if capacity_bytes < 0:
        raise InvalidInput(
            f"the capacity is {capacity_bytes} bytes", field="capacity", hint="0 or more"
        )
    state = kernel.new_state(
        operations.pages,
        len(operations) if steps else 0,
        policy.ages,
        operations.pages if policy.state else 0,
    )
    portions, setting, totals, counts = state[3:7]
    portions["limit_bytes"] = limits(policy, capacity_bytes)
    for at, rule in enumerate((policy.first, policy.second)):
        portions["beta"][at] = rule.beta
        portions["aborts"][at] = rule.aborts
        portions["ages"][at] = rule.ages
    setting["layout"] = policy.layout
    setting["pushes"] = policy.pushes
    setting["least_bytes"] = least_bytes(policy, capacity_bytes)
    setting["cost"] = cost
    setting["steps"] = steps
    setting["observed"] = policy.state is not None
    setting["due"] = kernel.NEVER
    callbacks = _callbacks(policy)
    started = time.perf_counter()
    kernel.run(
        operations.kind,
        operations.page,
        operations.size_bytes,
        operations.subscriptions,
        state,
        record_of(policy.state, policy.values),
        *callbacks,
    )
    seconds = time.perf_counter() - started
    return _outcome(operations, totals, counts.tolist(), seconds), state


def _callbacks(policy: PagePolicy) -> list[Any]:
    """In the kernel's order: both portions' frequencies, begin, observe."""
    number, count, nothing = numba.float64, numba.int64, numba.void
    wanted = [
        (policy.first.frequency, number, (ITEM_TYPE,)),
        (policy.second.frequency, number, (ITEM_TYPE,)),
        (policy.begin, nothing, (count,)),
        (policy.observe, nothing, (ITEM_TYPE, count, count, count)),
    ]
    return [
        policy_callback(function, policy.state, len(policy.values), answer, observed)
        if function
        else unused_callback(answer, *observed)
        for function, answer, observed in wanted
    ]


def _outcome(operations: Operations, totals: Any, counts: list[int], seconds: float) -> PageOutcome:
    sums = {name: totals[name][0].item() for name in kernel.TOTALS.names or ()}
    same = set(PageOutcome.__struct_fields__) & set(sums)
    return PageOutcome(
        **{name: sums[name] for name in same},
        operations=len(operations),
        publications=int((operations.kind == PUBLISH).sum()),
        requests=operations.requests,
        hits=counts[kernel.HIT],
        stored=counts[kernel.STORED],
        aborted=counts[kernel.ABORTED],
        miss_stored=counts[kernel.MISS_STORED],
        miss_not_stored=counts[kernel.MISS_NOT_STORED],
        cached_bytes=sums["size_bytes"],
        cache_max_bytes=sums["max_bytes"],
        seconds=seconds,
    )
