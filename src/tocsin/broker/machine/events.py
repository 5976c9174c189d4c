"""What the cluster tells a broker, as records that the machine's methods take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from tocsin.model import Result
from tocsin.protocol.link import Publication


class NewHead(Struct, frozen=True, gc=False):
    """A head in a notice or in news. `results`: pushed, a contiguous run that ends at `head`."""

    backend: int
    epoch: str
    head: int
    results: Sequence[Result] = ()


class RangeAnswer(Struct, frozen=True):
    """The store's answer to a Fetch. Results up to `floor` are no longer kept. `upto`: those of a
    filter are all that there are up to here; others have one position after the other.
    `from_neighbours`: so many of them, the newest, are from a neighbour's cache."""

    epoch: str
    floor: int
    head: int
    results: Sequence[Result]
    upto: int | None = None
    from_neighbours: int = 0


class Cursor(NamedTuple):
    """Where a get begins: behind `after`, a position of `epoch`; without it, behind the marker."""

    after: int | None = None
    epoch: str | None = None


AT_MARKER = Cursor()


class LogPart(Struct, frozen=True):
    """All records of a dataset's log in (after, upto]; those up to `floor` are no longer kept."""

    floor: int
    upto: int
    publications: list[Publication]


class Entered(Struct, frozen=True):
    """All records of the dataset after the position will be streamed."""

    dataset: str
    position: int


class Published(Struct, frozen=True):
    """A record was just published; `after` is the position before it in the log."""

    publication: Publication
    after: int


class Passed(Struct, frozen=True):
    """Everything up to the position was streamed."""

    dataset: str
    position: int


class Left(Struct, frozen=True):
    """The dataset's records are no longer streamed."""

    dataset: str


StreamLine = Entered | Published | Passed | Left


class QueryToken(Struct, frozen=True):
    """Where the core stood when a question was sent to the cluster.

    Taken from `core.query_token` before the call and handed back with its answer. An answer tells
    the cluster's state some time after the question, so it overrules what the core learned before
    the question, and must not overrule what it learned since.
    """

    event: int
    sequence: int | None
