"""The words of the publication log, and what is asked of the medium that holds its records.

A medium is a directory of segments or a Kafka cluster. `writer` drives one through `Medium` and
`DatasetLog`; whoever reads, in whatever process, goes through `Reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from tocsin.errors import Gone

Record = bytes | tuple[bytes, bytes | None]
"""The JSON of the declared fields, or a pair of that and the JSON of the extra ones."""


class Appended(NamedTuple):
    first: int  # position of the first record
    end: int  # where the next record of the dataset goes
    again: bool = False  # the log held these records already


class Cut(NamedTuple):
    """Records stamped <= at_us are those below the ends; all later ones are stamped > at_us."""

    at_us: int
    ends: dict[str, int]


class Stamped(NamedTuple):
    """A record and when the log took it."""

    at_us: int
    record: bytes
    extra: bytes | None


class News(NamedTuple):
    """What a dataset has received since a position."""

    lines: list[tuple[int, bytes]]  # position and JSON of each record
    end: int  # where to go on


class Leadership(Protocol):
    """Whether this is the one process that may write, where no lock of the system's says so."""

    on_lapse: Callable[[], None]  # called, on any thread, when it is no longer known to be

    def require(self) -> None:
        """Unavailable, unless nobody else can have taken over until now."""


class DatasetLog(Protocol):
    """One dataset's records; only the writer's thread calls it.

    Two ends matter: `written_end` is where the next record goes, `durable_end` is what may be shown
    to anybody. They differ only inside a commit.
    """

    last_us: int  # when its newest record was taken, as far as the medium knows
    durable_end: int
    written_end: int

    def find(self, key: str | None) -> Appended | None:
        """Where a request stands that was appended whole under this key."""

    def make_room(self) -> None:
        """Called before anything is staged for a commit."""

    def stage(self, key: str | None, lines: Sequence[Stamped]) -> Appended:
        """Take a request into the next commit; TooLarge, and nothing is taken, if it cannot be."""

    def commit(self) -> None:
        """Make everything staged durable, or raise; then `cut_back` is due."""

    def cut_back(self) -> None:
        """Forget all that is not durable. What cannot be forgotten is known by its key."""

    @property
    def poisoned(self) -> bool:
        """Whether a `cut_back` failed and is still due."""

    def roll(self) -> None:
        """Let `retire` reach everything up to now."""

    def retire(self, below: int) -> None:
        """Delete what lies wholly below a position."""

    def drop(self) -> None:
        """Delete all records. Positions go on from the end if it is ever opened again."""

    def close(self) -> None: ...


class Medium(Protocol):
    batch_bytes: int  # about what one commit holds at most

    @property
    def address(self) -> str:
        """By which `open_reader` finds it, from any process."""

    @property
    def warnings(self) -> Sequence[str]:
        """How it is set to lose what was acknowledged, as far as opened datasets told it, and what
        to do."""

    def known_us(self) -> int:
        """The newest time that was handed out, as far as the medium knows."""

    def open(self, dataset: str, primary_key: Sequence[str]) -> DatasetLog:
        """Open or create, and recover: afterwards every record is whole and durable."""

    def show(self, ends: Mapping[str, int], last_us: int, *, sync: bool) -> None:
        """Let readers see these ends."""

    def close(self) -> None: ...


class Reader(Protocol):
    """Knows nothing of the writer; trusts only what lies below the ends it is given."""

    @property
    def address(self) -> str: ...

    def first_position(self, dataset: str) -> int:
        """The first position that is still kept."""

    def lines(
        self, dataset: str, start: int, end: int, max_bytes: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Position and JSON of the records in [start, end); `start` is a record's position.

        Damaged if some of them cannot be read, never fewer records. What a repair gave up is none.
        With `max_bytes` it stops before the record that would exceed them, but gives at least one.
        """

    def record_at(self, dataset: str, position: int) -> int:
        """Where the record begins that `position`, below the end, is in."""

    def end_of(self, position: int, body: bytes) -> int:
        """Where a record ends, by its position and JSON."""

    def ends(self, dataset: str, positions: Sequence[int], end: int) -> list[int]:
        """Where records end, by their positions: all that there are in a range up to `end`."""

    def news(self, starts: Mapping[str, int], most_bytes: int) -> dict[str, News]:
        """What datasets have received since their positions; only of those that have.

        About `most_bytes` at most, but at least one record. May wait a moment for the first. A
        stream calls this over and over, from one thread.
        """

    def size_bytes(self, start: int, end: int) -> int:
        """About how many bytes the records in [start, end) are."""

    def span(self, size_bytes: int) -> int:
        """About how many positions so many bytes of records take; one at least."""

    def count(self, dataset: str, start: int, end: int) -> int:
        """About how many records lie in [start, end); `start` is a record's position."""

    def pieces(self, dataset: str, start: int, end: int, most_bytes: int) -> list[tuple[int, int]]:
        """[start, end) in pieces of about that size, cut where it suits the medium."""

    def close(self) -> None: ...


def gone(dataset: str, position: int) -> Gone:
    return Gone(
        f"the log of {dataset} no longer keeps position {position}",
        field=dataset,
        hint="older records are in the stored dataset, unless RETAIN dropped them",
    )
