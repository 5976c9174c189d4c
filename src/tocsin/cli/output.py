"""How the command line speaks: results on standard output, everything else on standard error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tocsin.errors import InvalidInput, StatementError, TocsinError
from tocsin.protocol import numbers

out = Console()
err = Console(stderr=True)


def complain(error: TocsinError | str) -> None:
    """One error, with where it was and what to do."""
    message = Text("error: ", style="bold red")
    message.append(error if isinstance(error, str) else error.message, style="not bold")
    if isinstance(error, StatementError) and error.line is not None:
        message.append(f"\n  at line {error.line}, column {error.column}", style="default")
    if isinstance(error, TocsinError) and error.field and error.field not in error.message:
        message.append(f"\n  field: {error.field}", style="default")
    if isinstance(error, TocsinError) and error.hint:
        message.append(f"\n  {error.hint}", style="default")
    err.print(message, soft_wrap=True)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows as a table in a terminal, as tab-separated lines elsewhere."""
    if not out.is_terminal:
        for line in (columns, *rows):
            print("\t".join(map(separable, line)))
        return
    table = Table(*columns, header_style="bold", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    out.print(table)


def show_json(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Each row as an object on a line of its own."""
    twice = sorted({name for name in columns if list(columns).count(name) > 1})
    if twice:
        raise InvalidInput(
            f"an object cannot have two fields {twice[0]!r}", field="json", hint="name one: AS …"
        )
    for row in rows:
        print(numbers.shown(dict(zip(columns, row, strict=True))))


def separable(value: Any) -> str:
    """A value between tabs, as PostgreSQL's COPY writes it: NULL is \\N, and whatever would break
    the line is escaped by a backslash."""
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return "true" if value else "false"
    return cell(value).translate(_ESCAPES)


_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return numbers.shown(value)
    return str(value)
