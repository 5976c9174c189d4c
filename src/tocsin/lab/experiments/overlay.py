"""The evaluation of overlay V, Figures 3 to 5, simulated, and what the text says of them.

The paper does not print how many messages there are, nor the rate of clients; we take 20 messages
(so that a slot is 5 % of them) and λ = 0.2. Caches hold 30 % of the messages, which the paper calls
enough, where their size is not what is varied.
"""

from __future__ import annotations

from tocsin.lab.spec.axis import Axis
from tocsin.lab.spec.checks import beats, both, changes_along, only_at, ratio
from tocsin.lab.spec.claims import Claim
from tocsin.lab.spec.experiment import Experiment, Extent, Variant
from tocsin.lab.spec.figures import Figure, curves
from tocsin.lab.spec.levels import between
from tocsin.lab.spec.shapes import part_of_last, rises_at_most, straight
from tocsin.lab.studies.tree import TREE_BY_BROKERS, TREE_BY_LOAD, TREE_BY_SLOTS

BASIC, LEAF = "basic", "leaf"
POLICIES = (BASIC, LEAF)
MESSAGES = 20
ENOUGH = 30  # percent of the messages: "a small percentage of cache (that is k = 0.3M) is enough"
SETTINGS = {"messages": MESSAGES, "slots": MESSAGES * ENOUGH // 100, "client_rate": 0.2}
EVERYWHERE = "everywhere on the axis, over paired seeds"

SIZES = tuple(
    Variant(
        name=f"{brokers} brokers",
        meaning=f"a balanced binary tree of {brokers} brokers",
        settings={"brokers": brokers},
    )
    for brokers in (7, 15, 31)
)
LOADS = tuple(
    Variant(
        name=f"load {load:g}",
        meaning=f"λ/μ = {load:g}",
        settings={"client_load": load},
    )
    for load in (0.15, 0.3)
)

MEANS = {
    "absorption_time": "Absorption time (s)",
    "hops": "Hops to the nearest response",
    "responses": "Responses to an answered request",
    "delivered": "Responses that reach the client",
    "slots_searched": "Cache slots searched for it",
    "links": "Links crossed for it",
    "delivery_ratio": "Delivery ratio",
}


def _figures(number: int) -> tuple[Figure, ...]:
    """The four of the paper, and two of ours."""
    titles = {
        "absorption_time": ("absorption", "Absorption time", "seconds"),
        "hops": ("hops", "Minimum hop distance", "hops"),
        "responses": ("responses", "Responses per request", "responses"),
        "slots_searched": ("slots", "Cache slots searched per request", "slots"),
        "links": ("links", "Links crossed per request", "links"),
        "delivery_ratio": ("delivery-ratio", "Delivery ratio", "answered / all requests"),
    }
    return tuple(
        curves(f"{number}-{name}", f"{title} (Figure {number})" if at < 4 else title, axis, metric)
        for at, (metric, (name, title, axis)) in enumerate(titles.items())
    )


def _own(number: int) -> tuple[Claim, ...]:
    return (
        Claim(
            name="no-longer-than-without-eviction",
            says="no message outlives the clients that want it",
            where=f"{number}-absorption",
            rule="the absorption time is at most 1.1 of the closed form for caches that hold all",
            check=ratio(
                "absorption_time", "absorption_without_eviction", POLICIES, low=0.0, high=1.1
            ),
            own=True,
        ),
    )


DYNAMICS = Experiment(
    name="overlay-load",
    purpose="message caches in a tree of brokers: client dynamics (overlay, Figure 3)",
    source="overlay V, Figure 3",
    study=TREE_BY_LOAD,
    axis=Axis(column="load", label="λ/μ", plural="loads", suffix="", unit=100.0),
    variants=SIZES,
    policies=POLICIES,
    full=Extent(values=(5, 10, 15, 20, 25, 30), seeds=10),
    quick=Extent(values=(10, 20, 30), seeds=4, settings={"runs": 60}),
    figures=_figures(3),
    claims=(
        Claim(
            name="absorption-exponential",
            says="we can identify the exponential nature of absorption time",
            where="3-absorption",
            rule="the logarithm of the mean and λ/μ have a correlation of 0.98 at least",
            check=straight("absorption_time", POLICIES, 0.98, logarithm=True),
        ),
        Claim(
            name="basic-survives-longest",
            says="the basic caching offers the best survivability of information",
            where="3-absorption",
            rule=f"basic's absorption time is above leaf's {EVERYWHERE}",
            check=beats(BASIC, (LEAF,), {"absorption_time": True}),
        ),
        Claim(
            name="basic-is-nearer",
            says="the basic caching is also superior in terms of the minimum hop distance",
            where="3-hops",
            rule=f"basic's hops are below leaf's {EVERYWHERE}",
            check=beats(BASIC, (LEAF,), {"hops": False}),
        ),
        Claim(
            name="leaf-costs-less",
            says="the advantages of thin replication schemes are showcased for leaf caching in "
            "overhead and complexity",
            where="3-responses",
            rule=f"leaf has fewer responses and fewer slots searched than basic {EVERYWHERE}",
            check=beats(LEAF, (BASIC,), {"responses": False, "slots_searched": False}),
        ),
        *_own(3),
    ),
    means=MEANS,
    settings=SETTINGS,
)

CACHE_SIZE = Experiment(
    name="overlay-slots",
    purpose="message caches in a tree of brokers: cache size (overlay, Figure 4)",
    source="overlay V, Figure 4",
    study=TREE_BY_SLOTS,
    axis=Axis(
        column="slots_percent", label="cache slots (% of messages)", plural="sizes", suffix="%"
    ),
    variants=SIZES,
    policies=POLICIES,
    full=Extent(values=(5, 10, 20, ENOUGH, 40, 60, 80, 100), seeds=10, settings={"runs": 300}),
    quick=Extent(values=(10, ENOUGH, 100), seeds=4, settings={"runs": 300}),
    figures=_figures(4),
    claims=(
        Claim(
            name="three-tenths-are-enough",
            says="using a small percentage of cache (that is k = 0.3M) is enough to achieve order "
            "performance",
            where="4-absorption",
            rule="at 30 %, absorption times are at least 0.5 of those at 100 %, and hops at most "
            "1.1 of them, with their intervals",
            check=both(
                part_of_last("absorption_time", POLICIES, ENOUGH, low=0.5),
                part_of_last("hops", POLICIES, ENOUGH, high=1.1),
            ),
        ),
        Claim(
            name="larger-survives-longer",
            says="a larger cache keeps messages longer",
            where="4-absorption",
            rule="the absorption time rises at each step up to 30 %",
            check=only_at(
                (5, 10, 20, ENOUGH), changes_along("absorption_time", POLICIES, rises=True)
            ),
            own=True,
        ),
        Claim(
            name="closed-form",
            says="with a slot for each message, basic caching has a closed form",
            where="4-absorption",
            rule="at 100 %, the absorption time is within 5 % of it, with its interval",
            check=only_at(
                (100,),
                ratio(
                    "absorption_time", "absorption_without_eviction", (BASIC,), low=0.95, high=1.05
                ),
            ),
            own=True,
        ),
        *_own(4),
    ),
    means=MEANS,
    settings=SETTINGS | {"client_load": 0.2},
)

SCALE = Experiment(
    name="overlay-brokers",
    purpose="message caches in a tree of brokers: scale (overlay, Figure 5)",
    source="overlay V, Figure 5",
    study=TREE_BY_BROKERS,
    axis=Axis(column="brokers", label="brokers", plural="numbers of brokers", suffix="brokers"),
    variants=LOADS,
    policies=POLICIES,
    full=Extent(values=(3, 7, 15, 31), seeds=10),
    quick=Extent(values=(3, 7, 15), seeds=4, settings={"runs": 300}),
    figures=_figures(5),
    claims=(
        Claim(
            name="overhead-linear",
            says="complexity and overhead are linear to the size of the network",
            where="5-responses",
            rule="responses and slots searched have a correlation of 0.99 with the number of "
            "brokers at least",
            check=both(
                straight("responses", POLICIES, 0.99), straight("slots_searched", POLICIES, 0.99)
            ),
        ),
        Claim(
            name="delay-grows-slowly",
            says="delay grows very slowly for the basic caching policy",
            where="5-hops",
            rule="by at most half a hop each time the tree is one level deeper",
            check=rises_at_most("hops", (BASIC,), 0.5),
        ),
        Claim(
            name="larger-networks-survive-longer",
            says="the survivability of the network is improved with the size of the network",
            where="5-absorption",
            rule="the absorption time rises at each step",
            check=changes_along("absorption_time", POLICIES, rises=True),
        ),
        Claim(
            name="basic-never-repeats",
            says="under basic caching, one response to a request reaches the client",
            where="5-responses",
            rule="exactly one, in every point",
            check=between("delivered", (BASIC,), 1.0, 1.0, every_seed=True),
            own=True,
        ),
        *_own(5),
    ),
    means=MEANS,
    settings=SETTINGS,
)

EXPERIMENTS = (DYNAMICS, CACHE_SIZE, SCALE)
