"""What grows along the x axis of an experiment's figures: cache sizes, numbers of records."""

from __future__ import annotations

from msgspec import Struct


class Axis(Struct, frozen=True, kw_only=True):
    column: str  # of the points
    label: str  # in figures, with its unit
    plural: str  # what its values are called
    suffix: str  # written after a value, with a space: MB, records
    unit: float = 1.0  # values are divided by it where they are shown
    logarithmic: bool = False
    instead: dict[str, Axis] = {}  # variants that go along another one, in the same column

    def of(self, variant: str) -> Axis:
        return self.instead.get(variant, self)

    def in_words(self, value: float) -> str:
        return f"{value / self.unit:,g} {self.suffix}".rstrip()


CACHE_SIZES = Axis(
    column="size_bytes",
    label="allowed cache size (MB)",
    plural="sizes",
    suffix="MB",
    unit=1e6,
)
