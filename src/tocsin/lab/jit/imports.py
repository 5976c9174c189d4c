"""Which of our files a module needs, by following the imports as they are written; and a digest
of them, which tells whether what was made with them is still theirs.

Nothing is imported for it: a module may ask while it is being imported itself.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

import tocsin

ROOT = Path(tocsin.__file__).parent
IRRELEVANT = {"tocsin", "tocsin.errors"}  # they decide what is said, not what is computed


@cache
def imported(module: str) -> frozenset[Path]:
    """The files of our own that importing `module` reads, itself included. What is found by its
    name at run time, as policies are, is not among them."""
    files: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        file = None if name in files or name in IRRELEVANT else _file(name)
        if file is not None:
            files[name] = file
            waiting += _named(name, file)
    return frozenset(files.values())


def digest(files: Iterable[Path], made_with: str) -> str:
    whole = hashlib.sha256(made_with.encode())
    for file in sorted(files):
        whole.update(file.name.encode())
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()[:16]


def _file(module: str) -> Path | None:
    """None if it is a name that a module has, or not ours."""
    top, *parts = module.split(".")
    place = ROOT.joinpath(*parts)
    files = (place / "__init__.py", place.with_suffix(".py")) if top == "tocsin" else ()
    return next((file for file in files if file.is_file()), None)


@cache
def _named(module: str, file: Path) -> list[str]:
    names = []
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package)
            names += [source, *(f"{source}.{alias.name}" for alias in node.names)]
    return names
