"""The demo command."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Filled in with the demo's driver."""
