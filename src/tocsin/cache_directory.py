"""Where files are kept that can be fetched or made again: jars, and Spark's classes.

A checkout keeps its own; an installed package keeps them for the user, whichever environment or
working directory it runs in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "TOCSIN_CACHE_DIRECTORY"
"""Names another place. It is no setting: what is kept there is the machine's, not a system's."""


def cache_directory(
    environ: Mapping[str, str] | None = None, *, package: Path | None = None
) -> Path:
    environ = os.environ if environ is None else environ
    if named := environ.get(VARIABLE):
        return Path(named).absolute()
    package = package or Path(__file__).resolve().parent
    if package.parent.name == "src" and (package.parents[1] / "pyproject.toml").is_file():
        return package.parents[1] / ".cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tocsin"
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tocsin"
