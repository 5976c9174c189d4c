"""Which code decides a point's result: a digest of it keeps points of different code apart.

Follows the imports as they are written, so that a change to a figure or a claim keeps the points,
and a new policy keeps those of the others.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

from tocsin.policies import parse_policy

IRRELEVANT = {"tocsin", "tocsin.errors"}  # they decide what is said, not what is computed


@cache
def policy_digest(policy: str) -> str:
    """Of the simulation and of this policy's own files."""
    chosen = parse_policy(policy)
    functions = [chosen.admit, chosen.evict, chosen.expire]
    own = {inspect.getsourcefile(inspect.unwrap(one)) for one in functions if one is not None}
    files = {Path(name) for name in own if name}
    return _digest(files | imported("tocsin.lab.simulator") | imported("tocsin.lab.edge"))


@cache
def bound_digest() -> str:
    return _digest(imported("tocsin.lab.bound_rows") | imported("tocsin.lab.edge"))


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256(np.__version__.encode())  # its random streams
    for file in sorted(files):
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


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
