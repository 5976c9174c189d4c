"""What the cluster tells a broker, as records that the core's methods take."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tocsin.model import Result


class NewHead(Struct, frozen=True):
    """A head in a notice or in news. `results`: pushed, a contiguous run that ends at `head`."""

    backend: int
    epoch: str
    head: int
    results: Sequence[Result] = ()


class RangeAnswer(Struct, frozen=True):
    """The store's answer to a Fetch. Results up to `floor` are no longer kept. `upto`: those of a
    filter are all that there are up to here; others have one position after the other. `near`: so
    many of them, the newest, are from a neighbour's cache."""

    epoch: str
    floor: int
    head: int
    results: Sequence[Result]
    upto: int | None = None
    near: int = 0


class Moment(Struct, frozen=True):
    """Where the core stood when a question was sent to the cluster.

    Taken from `core.moment` before the call and handed back with its answer. An answer tells the
    cluster's state some time after the question, so it overrules what the core learned before
    the question, and must not overrule what it learned since.
    """

    event: int
    sequence: int | None
