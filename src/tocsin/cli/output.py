"""How the command line speaks: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tocsin.errors import StatementError, TocsinError

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
        print("\t".join(columns))
        for row in rows:
            print("\t".join(cell(value) for value in row))
        return
    table = Table(*columns, header_style="bold", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    out.print(table)


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
