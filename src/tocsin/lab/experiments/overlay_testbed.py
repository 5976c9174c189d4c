"""The testbed of overlay VI, Figure 6, simulated and live: seven brokers, 40
messages, a client for each message at each broker every ten seconds, 350 seconds.

Delay is told in hops, as the paper itself compares the two; live, in time as well. The delivery
ratio is printed upside down: it is answered / all requests. The paper prints neither the caches'
size beside the loads nor the load beside the sizes: we take 30 % and λ/μ = 0.3.

Live brokers have a quarter of the messages, in the shorter runs and at twice the speed: 14 clients
a second, half of the testbed's. Two cores then keep up with the clients.
"""

from __future__ import annotations

import math

from tocsin.lab.experiments.overlay import (
    BASIC,
    CACHE_SIZE,
    DYNAMICS,
    ENOUGH,
    EVERYWHERE,
    LEAF,
    MEANS,
    POLICIES,
)
from tocsin.lab.spec.checks import beats, ratio
from tocsin.lab.spec.claims import Claim
from tocsin.lab.spec.experiment import Experiment, Extent, Live, Variant
from tocsin.lab.spec.figures import curves
from tocsin.lab.spec.levels import between
from tocsin.lab.studies.tree import TREE_BY_LOAD, TREE_BY_SLOTS

MESSAGES = 40
SETTINGS = {
    "brokers": 7,
    "messages": MESSAGES,
    "slots": MESSAGES * ENOUGH // 100,
    "client_rate": 0.1,
    "client_load": 0.3,
}
DURATIONS = tuple(
    Variant(name=f"{seconds} s", meaning=meaning, settings={"duration_s": seconds})
    for seconds, meaning in (
        (350, "runs of 350 s, as the paper has them"),
        (100, "runs of 100 s: messages are there for a larger part of them"),
    )
)
LIVE = tuple(f"{variant.name}, live" for variant in DURATIONS)
PREDICTED = tuple(f"{variant.name}, predicted" for variant in DURATIONS)
FIGURES = (
    *(
        curves(f"6-{name}", f"{title} (Figure 6)", axis, metric)
        for metric, name, title, axis in (
            ("hops", "delay", "Delay", "hops to the nearest response"),
            ("delivery_ratio", "delivery-ratio", "Delivery ratio", "answered / all requests"),
            ("responses", "responses", "Responses per request", "responses"),
        )
    ),
    curves(
        "6-delay-live",
        "Delay in time (Figure 6)",
        "ms to the first response",
        "delay_s",
        unit=1e-3,
        variants=(*LIVE, *PREDICTED),
    ),
)
CLAIMS = (
    Claim(
        name="basic-is-always-faster",
        says="the basic policy seems to always outperform the leaf policy",
        where="6-delay",
        rule=f"basic's hops are below leaf's {EVERYWHERE}",
        check=beats(BASIC, (LEAF,), {"hops": False}),
    ),
    Claim(
        name="delivery-is-absorption",
        says="the delivery ratio is actually a representation of absorption time",
        where="6-delivery-ratio",
        rule="the delivery ratio / (absorption time / duration of a run) lies, with its interval, "
        "in 0.95 to 1.05",
        check=ratio("delivery_ratio", "there_share", POLICIES, low=0.95, high=1.05),
    ),
    Claim(
        name="leaf-responds-less",
        says="the measurements support the findings of simulations",
        where="6-responses",
        rule=f"leaf has fewer responses than basic {EVERYWHERE}",
        check=beats(LEAF, (BASIC,), {"responses": False}),
    ),
    Claim(
        name="basic-answers-sooner",
        says="the basic policy seems to always outperform the leaf policy",
        where="6-delay-live",
        rule=f"basic's delay is below leaf's {EVERYWHERE}",
        check=beats(BASIC, (LEAF,), {"delay_s": False}),
        variants=(*LIVE, *PREDICTED),
    ),
    Claim(
        name="delay-is-hops",
        says="delay performance corresponds to the minimum hop distance metric",
        where="6-delay-live",
        rule="a hop more takes longer: the slope of delay over hops, with its interval, is above 0",
        check=between("hop_s", POLICIES, 1e-6, math.inf),
        variants=LIVE,
    ),
    *(
        Claim(
            name=f"live-{name}-as-simulated",
            says=f"{what} on live brokers is that of the simulator, for the same clients",
            where=f"6-{name}",
            rule="live / simulated is in 0.95 to 1.05, in every point",
            check=ratio(
                metric, f"foretold_{metric}", POLICIES, low=0.95, high=1.05, every_seed=True
            ),
            own=True,
            variants=LIVE,
        )
        for metric, name, what in (
            ("delivery_ratio", "delivery-ratio", "the delivery ratio"),
            ("responses", "responses", "the number of responses"),
        )
    ),
)


def _live(full: tuple[int, ...], quick: tuple[int, ...]) -> Live:
    settings = {"messages": 10, "slots": 3, "speed": 2.0}
    return Live(
        on="seven live brokers",
        full=Extent(values=full, seeds=3, settings=settings),
        quick=Extent(values=quick, seeds=1, settings=settings),
        variants=("100 s",),
    )


TIMES = {
    "delay_s": "Delay (s)",
    "hop_s": "Of it, each hop (s)",
    "late_s": "How late clients came (s): believe points where it is little",
}

LOADS = Experiment(
    name="overlay-testbed-load",
    purpose="message caches on a testbed of 7 brokers: client dynamics (overlay, Figure 6)",
    source="overlay VI, Figure 6 (left)",
    study=TREE_BY_LOAD,
    axis=DYNAMICS.axis,
    variants=DURATIONS,
    policies=POLICIES,
    full=Extent(values=(10, 20, 30, 40, 50, 60), seeds=10),
    quick=Extent(values=(20, 40, 60), seeds=4),
    figures=FIGURES,
    claims=CLAIMS,
    means=MEANS | TIMES,
    settings=SETTINGS,
    live=_live(full=(20, 40, 60), quick=(20, 60)),
)

SIZES = Experiment(
    name="overlay-testbed-slots",
    purpose="message caches on a testbed of 7 brokers: cache size (overlay, Figure 6)",
    source="overlay VI, Figure 6 (right)",
    study=TREE_BY_SLOTS,
    axis=CACHE_SIZE.axis,
    variants=DURATIONS,
    policies=POLICIES,
    full=Extent(values=(10, 20, ENOUGH, 50, 75, 100), seeds=10),
    quick=Extent(values=(10, ENOUGH, 100), seeds=4),
    figures=FIGURES,
    claims=CLAIMS,
    means=MEANS | TIMES,
    settings=SETTINGS,
    live=_live(full=(10, ENOUGH, 100), quick=(10, 100)),
)

EXPERIMENTS = (LOADS, SIZES)
