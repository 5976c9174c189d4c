"""Random small workloads, as a strategy for Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from tocsin.lab.workloads.workload import OFFLINE, ONLINE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Workload

STEP = st.tuples(
    st.sampled_from(["publish"] * 5 + ["presence"] * 3 + ["subscription"] * 2),
    st.integers(0, 11),  # who
    st.integers(0, 3),  # backend subscription
    st.integers(1, 60),  # size
    st.sampled_from([0.0, 0.001, 1.0, 7.0, 40.0, 200.0]),  # time that passes before
)


@st.composite
def workloads(draw: st.DrawFn, steps: int = 120) -> Workload:
    """Up to 4 subscribers with 3 frontend subscriptions each, 4 backend subscriptions."""
    owners = [slot // 3 for slot in range(12)]
    online: set[int] = set()
    subscribed: set[int] = set()
    events: list[tuple[float, int, int, int]] = []
    at = 0.0
    for what, who, backend, size, elapsed in draw(st.lists(STEP, min_size=20, max_size=steps)):
        at += elapsed
        if what == "publish":
            events.append((at, PUBLISH, backend, size))
        elif what == "presence":
            who %= 4
            events.append((at, OFFLINE if who in online else ONLINE, who, 0))
            online ^= {who}
        elif who in subscribed:
            events.append((at, UNSUBSCRIBE, who, 0))
            subscribed.remove(who)
        else:
            events.append((at, SUBSCRIBE, who, backend))
            subscribed.add(who)
    return Workload.of(events, owners, 4, 4, at + 1.0)
