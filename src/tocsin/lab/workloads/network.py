"""What distance costs (BAD, Table II)."""

from __future__ import annotations

from msgspec import Struct

from tocsin.errors import SettingError


class Network(Struct, frozen=True, kw_only=True):
    """Round trips in seconds, bandwidths in bytes a second."""

    cluster_rtt_s: float = 0.5
    cluster_bytes_per_s: float = 10e6
    subscriber_rtt_s: float = 0.25
    subscriber_bytes_per_s: float = 1e6

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value = getattr(self, field)
            least = "more than 0" if field.endswith("per_s") else "at least 0"
            if not value >= 0 or value == float("inf") or (value == 0 and least == "more than 0"):
                raise SettingError(f"{field} is {value}", field=field, hint=f"a number {least}")

    def fetch_s(self, size_bytes: float) -> float:
        """How long a fetch from the cluster takes."""
        return self.cluster_rtt_s + size_bytes / self.cluster_bytes_per_s
