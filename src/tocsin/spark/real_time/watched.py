"""A channel that is to be served in real-time mode, and how it has got on there. Knows no Spark and
no clock."""

from __future__ import annotations

from msgspec import Struct

from tocsin.model import Channel
from tocsin.spark.channels import CompiledChannel
from tocsin.spark.real_time.members import Form, Member

SUSPECT_S = 60.0  # a channel that failed stays out of queries so long, and twice as long each time
MOST_SUSPECT_S = 3600.0


class Watched(Struct):
    """`members` is what it is in a query. `begin`: all below was looked at, by queries or before
    one took it up. `refused`: why it cannot be in one."""

    channel: Channel
    compiled: CompiledChannel
    members: tuple[Member, ...] = ()
    stale: bool = True  # its subscriptions may leave open what none did
    begin: int = 0
    refused: str = ""
    failures: int = 0
    failed_at: float = 0.0
    failure: str = ""

    @property
    def dataset(self) -> str:
        (name,) = self.compiled.new
        return name

    @property
    def forms(self) -> set[Form]:
        return {member.form for member in self.members}

    @property
    def openable(self) -> bool:
        """Whether a subscription may leave anything open."""
        needed = self.compiled.openings.needed
        return any(parameter.name not in needed for parameter in self.channel.parameters)

    def fail(self, reason: str, now: float) -> None:
        lasting = self.failures and now - self.failed_at < 2 * MOST_SUSPECT_S
        self.failures = self.failures + 1 if lasting else 1
        self.failed_at, self.failure = now, reason

    def suspect_s(self, now: float) -> float:
        """How long it is still kept apart."""
        if not self.failures:
            return 0.0
        long = min(SUSPECT_S * 2.0 ** (self.failures - 1), MOST_SUSPECT_S)
        return max(0.0, self.failed_at + long - now)
