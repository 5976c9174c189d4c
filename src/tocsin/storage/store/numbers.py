"""Many numbers in one statement, as text: all databases read them, none limits how many there are,
and nothing is bound one by one. Numbers only: nothing that anybody else wrote comes in this way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tocsin.storage.store import schema

_AT_ONCE = 5000  # rows of one statement, whose text a server bounds


def listed(numbers: Iterable[int]) -> str:
    """For IN; of no number nothing is true."""
    return f"({','.join(map(_digits, numbers)) or 'NULL'})"


def given(columns: Sequence[str], rows: Sequence[Sequence[int]]) -> Iterator[str]:
    """A table named `given`, for FROM: as many rows at a time as a statement may carry. Its first
    part is there for the columns' names, which databases give to VALUES in ways of their own."""
    names = ", ".join(f"0 AS {name}" for name in columns)
    for start in range(0, len(rows), _AT_ONCE):
        chunk = rows[start : start + _AT_ONCE]
        values = ",".join(f"({','.join(map(_digits, row))})" for row in chunk)
        yield f"(SELECT {names} WHERE FALSE UNION ALL VALUES {values}) AS given"


def _digits(number: int) -> str:
    return f"{schema.checked_number(number):d}"
