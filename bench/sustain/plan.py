"""What is to be measured: which system, with what, at which rates, for how long."""

from __future__ import annotations

from msgspec import Struct

PROFILES = ("embedded", "company")
RATES = (200, 500, 1000, 2000, 3000, 5000, 7500, 10_000, 15_000)
LOW_RATE = 200


class Case(Struct, frozen=True):
    profile: str
    shape: str
    sets: int
    """Parameter sets of the channel."""
    held: int
    """So many of them are held by clients that are connected; records concern these alone."""
    clients: int = 1

    @property
    def title(self) -> str:
        return f"{self.profile}, {self.shape}, {self.sets:,} sets"


class Pace(Struct, frozen=True):
    rates: tuple[int, ...] = RATES
    seconds: float = 20.0
    warm_up_s: float = 60.0
    """Java goes on compiling what runs often for about so long."""
    warm_up_rate: int = 500
    patience_s: float = 0.0
    """Before each step, so long at most until others leave the machine alone."""


class Target(Struct, frozen=True):
    """What is asked of a profile."""

    rate: float
    p99_ms: float
    low_p50_ms: float
    low_p99_ms: float | None = None


TARGETS = {
    "embedded": Target(10_000, 1500.0, 150.0),
    "company": Target(5000, 400.0, 20.0, 100.0),
}
HELD_MOST = 10_000  # clients that hold more are measured when asked for


def case(profile: str, shape: str, sets: int, held: int = 0, clients: int = 1) -> Case:
    return Case(profile, shape, sets, min(sets, held or HELD_MOST), clients)


QUICK = ((case("embedded", "equality", 1000),), Pace((200, 1000, 2000, 3000), 6.0, 15.0, 1000))
WHOLE = (
    (
        *(
            case("embedded", shape, sets)
            for shape in ("equality", "near")
            for sets in (1000, 100_000)
        ),
        *(case("company", "equality", sets) for sets in (10_000, 100_000)),
    ),
    Pace(),
)
