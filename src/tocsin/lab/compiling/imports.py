"""Which of our files a module needs, by following the imports as they are written."""

from __future__ import annotations

import ast
import importlib.util
from functools import cache
from pathlib import Path

IRRELEVANT = {"tocsin", "tocsin.errors"}  # they decide what is said, not what is computed


@cache
def imported(module: str) -> frozenset[Path]:
    """The files of our own that importing `module` names, itself included, by reading them."""
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found or name in IRRELEVANT:
            continue
        file = _file(name)
        if file is not None:
            found[name] = file
            waiting += _named(name, file)
    return frozenset(found.values())


def _file(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # a name imported from a module is no module itself
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


def _named(module: str, file: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in found if name.split(".")[0] == "tocsin"]
