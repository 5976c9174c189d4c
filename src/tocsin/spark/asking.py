"""What a channel's query is asked, what it answers, and whose fault it is when it cannot. Knows no
Spark: `trial` asks Spark, the fault simulation a plain matcher.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
from msgspec import Struct

from tocsin.model import Arguments
from tocsin.protocol import columns
from tocsin.spark.window import Window
from tocsin.storage.store.rows import Row as Row
from tocsin.storage.store.rows import Rows as Rows

if TYPE_CHECKING:
    from tocsin.spark.answering import Prepared
    from tocsin.spark.pins import Pinned

MATCH = (columns.BACKEND, columns.ORDER, columns.PAYLOAD)
"""The columns of what a query found. Sorted by them, it is in the order to store it."""


class Record(NamedTuple):
    """A new record, by where it stands."""

    dataset: str
    position: int


def rows_of(table: pa.Table) -> Rows:
    """Of sorted columns BACKEND, ORDER and PAYLOAD, without an object of Python's for each row but
    those that the columns are made of."""
    backends, orders, payloads = (table.column(name) for name in MATCH)
    return Rows(
        backends.to_numpy().tolist(),
        orders.to_numpy().tolist(),
        payloads.cast(pa.binary()).to_numpy().tolist(),
    )


class Ask(Struct, frozen=True):
    """What a query is asked of, and for how long at a time. `divisible` says whether it may be
    asked of less instead, when too much fails at once."""

    window: Window
    snapshot: Pinned
    limit_s: float
    divisible: Callable[[], bool] = lambda: False


class Blame(Enum):
    QUERY = auto()  # the query cannot compute with a record or an argument
    LIMIT = auto()  # it took longer than it may
    MEMORY = auto()  # it wanted more than there is, or another one did at the same time
    MACHINERY = auto()


class Overlong(Exception):
    """A run was stopped because it took longer than its limit."""


class Tries(Protocol):
    """A channel's query, tried on the records and parameter sets of one run, or on some of them."""

    def rows(
        self,
        *,
        only: Sequence[Record] | None = None,
        without: Collection[Record] = (),
        sets: Mapping[int, Arguments] | None = None,
    ) -> Rows:
        """The results in the order to store them: of all records and parameter sets, or of some."""

    def fails(self, records: Sequence[Record], sets: Mapping[int, Arguments]) -> str | None:
        """Why the query cannot compute with these; None: it can. Raises what is not its fault."""

    def records(self) -> list[Record]:
        """All new records, by where they stand."""

    def texts(self, records: Collection[Record]) -> list[tuple[Record, str]]:
        """The records' fields as JSON."""


class Queries(Protocol):
    """Whoever computes what channels' queries say."""

    def parameters(self, prepared: Prepared, sets: Mapping[int, Arguments]) -> Any:
        """These parameter sets, as `tries` takes them; None: there are none."""

    def tries(self, prepared: Prepared, ask: Ask, parameters: Any) -> Tries: ...

    def blame(self, error: Exception) -> Blame: ...

    def reason(self, error: Exception) -> str:
        """One line of why, in words that are not the machinery's internals."""


class ParameterSets(Protocol):
    """A channel's parameter sets, refreshed by what changed. `version` is -1 at first."""

    version: int

    def replace(self, version: int, sets: Any) -> None: ...

    def update(self, version: int, added: Any, removed: Any) -> None: ...

    def current(self) -> Any:
        """As `Queries.tries` takes them; None when there is no parameter set."""

    def holds(self, backend: int) -> bool: ...


class Compiled(Protocol):
    """What must be known of a channel's query to run it."""

    @property
    def new(self) -> tuple[str, ...]: ...

    @property
    def by_record(self) -> bool:
        """Whether each result stems from one record."""

    @property
    def needs_new_records(self) -> bool: ...

    @property
    def uses_window(self) -> bool: ...
