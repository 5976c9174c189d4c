"""Clients that come and go at the brokers of a tree: the setting of overlay V.

Messages are published once, all at the beginning, each at a broker drawn at random. Each has
clients of its own at every broker: they come at a rate λ and stay for 1/μ on average (M/M/∞), and
whoever comes asks for the message, too.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from tocsin.errors import InvalidInput

MOST_CELLS = 10_000_000  # brokers × messages: what kernels hold


class TreeLoad(Struct, frozen=True, kw_only=True):
    brokers: Annotated[int, Meta(description="N, in a balanced binary tree")] = 7
    messages: Annotated[int, Meta(description="M: published once, at the beginning")] = 25
    slots: Annotated[int, Meta(description="k: of each broker's cache")] = 6
    client_rate: Annotated[
        float,
        Meta(description="λ: clients a second that come, for one message at one broker"),
    ] = 0.2
    client_load: Annotated[
        float,
        Meta(description="ρ = λ/μ: clients of one message at one broker, on average"),
    ] = 0.45
    duration_s: Annotated[
        float, Meta(description="seconds until a run ends; 0: when all messages are gone")
    ] = 0.0

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
