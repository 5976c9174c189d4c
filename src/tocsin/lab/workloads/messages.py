"""Messages for clients that come and go: the setting of the *survival* paper (section 3).

Messages are published to all brokers at a rate λb. Each has clients of its own at every broker:
they come at a rate λc and stay for 1/μc on average (M/M/∞), and whoever comes asks for the
message, too, if it is an old one. Popular messages have the rate λc; a share of messages may be
less popular.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from msgspec import Struct

from tocsin.errors import InvalidInput

MOST_SLOTS = 1_000_000  # of all brokers together: what kernels hold
MOST_CLIENTS = 500  # of one message at one broker, on average
Copying = Literal["every", "first"]


class MessageLoad(Struct, frozen=True, kw_only=True):
    brokers: int = 3  # n
    slots: int = 15  # k, of each broker's cache
    publication_rate: float = 1.0  # λb, a second
    client_rate: float = 0.1  # λc, a second, for one message at one broker
    client_load: float = 2.0  # ρ = λc/μc: clients of one message at one broker, on average
    copying: Copying = "every"  # which arriving client has the message copied to its broker
    unpopular_share: float = 0.0  # of the messages
    unpopular_rate: float = 0.0  # their λc; clients stay as long as those of the others

    def __post_init__(self) -> None:
        for name in ("brokers", "slots"):
            value = getattr(self, name)
            _refuse(value >= 1, name, value, "1 or more")
        _refuse(
            self.brokers * self.slots <= MOST_SLOTS,
            "slots",
            self.slots,
            f"at most {MOST_SLOTS:,} of all brokers together",
        )
        for name in ("publication_rate", "client_rate", "client_load"):
            value = getattr(self, name)
            _refuse(1e-9 <= value <= 1e9, name, value, "more than 0")
        _refuse(
            self.client_load <= MOST_CLIENTS,
            "client_load",
            self.client_load,
            f"at most {MOST_CLIENTS}",
        )
        _refuse(self.copying in ("every", "first"), "copying", self.copying, "every or first")
        _refuse(
            0 <= self.unpopular_share <= 1, "unpopular_share", self.unpopular_share, "from 0 to 1"
        )
        _refuse(self.unpopular_rate >= 0, "unpopular_rate", self.unpopular_rate, "0 or more")
        if self.unpopular_share > 0:
            value = self.unpopular_rate
            _refuse(0 < value <= self.client_rate, "unpopular_rate", value, "above 0, at most λc")

    @property
    def departure_rate(self) -> float:
        """μc."""
        return self.client_rate / self.client_load

    @property
    def nobody(self) -> float:
        """π0: the probability that a broker has no client of a (popular) message."""
        return math.exp(-self.client_load)

    @property
    def one_class(self) -> bool:
        return self.unpopular_share == 0


def _refuse(fits: bool, name: str, value: Any, usage: str) -> None:
    if not fits:
        raise InvalidInput(
            f"{name.replace('_', ' ')} is {value!r}", field=name.replace("_", "-"), hint=usage
        )
