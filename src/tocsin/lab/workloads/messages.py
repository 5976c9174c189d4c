"""Messages for clients that come and go: the setting of survival 3.

Messages are published to all brokers at a rate λb. Each has clients of its own at every broker:
they come at a rate λc and stay for 1/μc on average (M/M/∞), and whoever comes asks for the
message, too, if it is an old one. Popular messages have the rate λc; a share of messages may be
less popular.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tocsin.errors import InvalidInput

MOST_SLOTS = 1_000_000  # of all brokers together: what kernels hold
MOST_CLIENTS = 500  # of one message at one broker, on average
Copying = Literal["every", "first"]


class MessageLoad(Struct, frozen=True, kw_only=True):
    brokers: Annotated[int, Meta(description="n")] = 3
    slots: Annotated[int, Meta(description="k, of each broker's cache")] = 15
    publication_rate: Annotated[float, Meta(description="λb, a second")] = 1.0
    client_rate: Annotated[
        float,
        Meta(description="λc: clients that come for one message to one broker, a second"),
    ] = 0.1
    client_load: Annotated[
        float,
        Meta(description="ρ = λc/μc: clients of one message at one broker, on average"),
    ] = 2.0
    copying: Annotated[
        Copying, Meta(description="which client has a message copied: every or first")
    ] = "every"
    unpopular_share: Annotated[float, Meta(description="of the messages")] = 0.0
    unpopular_rate: Annotated[float, Meta(description="λc of unpopular messages")] = 0.0

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
