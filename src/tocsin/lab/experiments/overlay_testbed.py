"""The *overlay* paper's testbed (section VI, Figure 6), simulated: seven brokers, 40 messages, a
client for each message at each broker every ten seconds, 350 seconds.

Delay is told in hops, as the paper itself compares the two. The delivery ratio is printed upside
down: it is answered / all requests. The paper prints neither the caches' size beside the loads nor
the load beside the sizes: we take 30 % and λ/μ = 0.3.
"""

from __future__ import annotations

from tocsin.lab.declaring.checks import beats, ratio
from tocsin.lab.declaring.claims import Claim
from tocsin.lab.declaring.experiment import Experiment, Extent, Reading
from tocsin.lab.declaring.figures import Figure, Series
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
from tocsin.lab.subjects.tree import TREE_BY_LOAD, TREE_BY_SLOTS

MESSAGES = 40
SETTINGS = {
    "brokers": 7,
    "messages": MESSAGES,
    "slots": MESSAGES * ENOUGH // 100,
    "client_rate": 0.1,
    "client_load": 0.3,
}
DURATIONS = tuple(
    Reading(name=f"{seconds} s", meaning=meaning, settings={"duration_s": seconds})
    for seconds, meaning in (
        (350, "runs of 350 s, as the paper has them"),
        (100, "runs of 100 s: messages are there for a larger part of them"),
    )
)
FIGURES = tuple(
    Figure(
        name=f"6-{name}", title=f"{title} (Figure 6)", axis=axis, series=(Series(metric=metric),)
    )
    for metric, name, title, axis in (
        ("hops", "delay", "Delay", "hops to the nearest response"),
        ("delivery_ratio", "delivery-ratio", "Delivery ratio", "answered / all requests"),
        ("responses", "responses", "Responses per request", "responses"),
    )
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
)

LOADS = Experiment(
    name="overlay-testbed-load",
    purpose="message caches on a testbed of 7 brokers: client dynamics (overlay, Figure 6)",
    source="overlay, section VI, Figure 6 (left)",
    subject=TREE_BY_LOAD,
    axis=DYNAMICS.axis,
    readings=DURATIONS,
    policies=POLICIES,
    full=Extent(values=(10, 20, 30, 40, 50, 60), seeds=10),
    quick=Extent(values=(20, 40, 60), seeds=4),
    figures=FIGURES,
    claims=CLAIMS,
    means=MEANS,
    settings=SETTINGS,
)

SIZES = Experiment(
    name="overlay-testbed-slots",
    purpose="message caches on a testbed of 7 brokers: cache size (overlay, Figure 6)",
    source="overlay, section VI, Figure 6 (right)",
    subject=TREE_BY_SLOTS,
    axis=CACHE_SIZE.axis,
    readings=DURATIONS,
    policies=POLICIES,
    full=Extent(values=(10, 20, ENOUGH, 50, 75, 100), seeds=10),
    quick=Extent(values=(10, ENOUGH, 100), seeds=4),
    figures=FIGURES,
    claims=CLAIMS,
    means=MEANS,
    settings=SETTINGS,
)

EXPERIMENTS = (LOADS, SIZES)
