"""What is varied: the axes of the paper's figures. Where it does not say what the other numbers
are, they are those of survival 7.1 (k = 15, λb = 1, λc = 0.1, ρ = 2), with three brokers."""

from __future__ import annotations

from tocsin.lab.spec.axis import Axis
from tocsin.lab.spec.experiment import Extent, variants_of
from tocsin.lab.studies.message_cache import THOUSANDTHS

PAPERS = "sel-sub-prt"
FLOODING = "sel-fld-prt"
PLAIN = "sel-sub-nop"
YARDSTICK = "all-fld-nop"
POLICIES = (PAPERS, FLOODING, PLAIN, YARDSTICK)

COLUMN = "value"
SLOTS = Axis(
    column=COLUMN, label="slots of each cache, k", plural="numbers of slots", suffix="slots"
)
BROKERS = Axis(column=COLUMN, label="brokers, n", plural="numbers of brokers", suffix="brokers")
LOAD = Axis(
    column=COLUMN,
    label="clients of a message at a broker, ρ",
    plural="loads",
    suffix="clients",
    unit=THOUSANDTHS,
)
RATE = Axis(
    column=COLUMN,
    label="publications a second, λb",
    plural="rates",
    suffix="/s",
    unit=THOUSANDTHS,
)
RATIO = Axis(
    column=COLUMN,
    label="clients of a popular message for one of an unpopular one",
    plural="ratios",
    suffix=": 1",
)
AXIS = Axis(
    column=COLUMN,
    label=SLOTS.label,
    plural=SLOTS.plural,
    suffix=SLOTS.suffix,
    instead={
        "single-load": LOAD,
        "single-rate": RATE,
        "load": LOAD,
        "load-first": LOAD,
        "rate": RATE,
        "brokers": BROKERS,
        "unpopular": RATIO,
        "popular": RATIO,
    },
)
SINGLE = ("single-load", "single-rate")
MULTI = ("slots", "load", "rate", "brokers")
CLASSES = ("unpopular", "popular")

VARIANTS = variants_of(
    {
        "single-load": (
            "one broker; clients stay longer or shorter (Figure 4)",
            {"varies": "client_load", "brokers": 1},
        ),
        "single-rate": (
            "one broker; more or fewer publications (Figure 4)",
            {"varies": "publication_rate", "brokers": 1},
        ),
        "slots": ("larger and smaller caches (Figures 5 and 6)", {"varies": "slots"}),
        "load": ("clients stay longer or shorter (Figures 5 and 6)", {"varies": "client_load"}),
        "rate": ("more or fewer publications (Figures 5 and 6)", {"varies": "publication_rate"}),
        "brokers": ("more or fewer brokers (Figures 5 and 6)", {"varies": "brokers"}),
        "load-first": (
            "as load, but only a broker's first client has a message copied to it",
            {"varies": "client_load", "copying": "first"},
        ),
        "unpopular": (
            "half of the messages have fewer clients than the others (Figure 7)",
            {"varies": "unpopular"},
        ),
        "popular": (
            "half of the messages have more clients than the others (Figure 7)",
            {"varies": "popular"},
        ),
    }
)

LOADS, FEW_LOADS = (250, 500, 1000, 2000, 3000, 4000), (500, 2000, 4000)
RATES, FEW_RATES = (250, 500, 1000, 2000, 4000), (500, 1000, 2000)
RATIOS, FEW_RATIOS = (1, 2, 3, 5, 8), (1, 2, 5)

FULL = Extent(
    values=(5, 10, 15, 20, 25, 30),
    instead={
        "single-load": LOADS,
        "single-rate": RATES,
        "load": LOADS,
        "load-first": LOADS,
        "rate": RATES,
        "brokers": (2, 3, 4, 5, 6),
        "unpopular": RATIOS,
        "popular": RATIOS,
    },
    seeds=10,
)
QUICK = Extent(
    values=(5, 15, 25),
    instead={
        "single-load": FEW_LOADS,
        "single-rate": FEW_RATES,
        "load": FEW_LOADS,
        "load-first": FEW_LOADS,
        "rate": FEW_RATES,
        "brokers": (2, 3, 4),
        "unpopular": FEW_RATIOS,
        "popular": FEW_RATIOS,
    },
    seeds=3,
    settings={"messages": 30_000},
)
