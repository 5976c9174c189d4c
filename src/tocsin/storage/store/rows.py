"""What a run found, column by column: thousands of rows pass from Spark to the store without an
object for each. Knows neither of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct, field


class Row(NamedTuple):
    """A result: whose, what it is sorted by (a record's position, where it is of one), and what."""

    backend: int
    order: int
    payload: bytes


class Rows(Struct, frozen=True):
    """Results to be, in the order to store them: the same place of each list is one `Row`."""

    backends: list[int] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Rows:
        columns = list(zip(*rows, strict=True))
        return cls(*map(list, columns)) if columns else cls()

    def __len__(self) -> int:
        return len(self.backends)

    def __iter__(self) -> Iterator[Row]:
        return map(Row, self.backends, self.orders, self.payloads)

    def where(self, wanted: Callable[[Row], bool]) -> Rows:
        return Rows.of(row for row in self if wanted(row))

    def with_others(self, others: Rows) -> Rows:
        """Both, in order."""
        return Rows.of(sorted([*self, *others]))
