"""Clients that come and go at the brokers of a tree: the *overlay* paper's setting (section V).

Messages are published once, all at the beginning, each at a broker drawn at random. Each has
clients of its own at every broker: they come at a rate λ and stay for 1/μ on average (M/M/∞), and
whoever comes asks for the message, too.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tocsin.errors import InvalidInput

MOST_CELLS = 10_000_000  # brokers × messages: what kernels hold


class TreeLoad(Struct, frozen=True, kw_only=True):
    brokers: int = 7  # N
    messages: int = 25  # M
    slots: int = 6  # k, of each broker's cache
    client_rate: float = 0.2  # λ, a second, for one message at one broker
    client_load: float = 0.45  # ρ = λ/μ: clients of one message at one broker, on average
    duration_s: float = 0.0  # when a run ends; 0: when all messages are gone

    def __post_init__(self) -> None:
        for name in ("brokers", "messages", "slots"):
            _refuse(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        cells = self.brokers * self.messages
        _refuse(cells <= MOST_CELLS, "brokers", self.brokers, f"× messages: at most {MOST_CELLS:,}")
        for name in ("client_rate", "client_load"):
            value = getattr(self, name)
            _refuse(1e-9 <= value <= 1e9, name, value, "more than 0")
        _refuse(self.client_load <= 500, "client_load", self.client_load, "at most 500")
        _refuse(0 <= self.duration_s < float("inf"), "duration_s", self.duration_s, "0 or more")

    @property
    def departure_rate(self) -> float:
        """μ."""
        return self.client_rate / self.client_load


def _refuse(fits: bool, name: str, value: Any, usage: str) -> None:
    if not fits:
        raise InvalidInput(
            f"{name.replace('_', ' ')} is {value!r}", field=name.replace("_", "-"), hint=usage
        )
