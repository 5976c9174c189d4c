"""Which code decides a point's result: a digest of it keeps points of different code apart.

A change to a figure or a claim keeps the points, and a new policy keeps those of the others. What
was measured on a live system stays true of that day: only what was played counts.
"""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path

import numpy as np

from tocsin.lab.compiling.imports import digest, imported
from tocsin.lab.declaring.subject import Subject

MADE_WITH = np.__version__  # its random streams


def point_digest(subject: Subject, kind: str, policy: str) -> str:
    """Of a point of this kind: no policy is a bound's."""
    if not policy:
        return bound_digest(subject)
    if kind == "live":
        return _digest(subject.live_by, tuple(subject.functions(policy)), "")
    return policy_digest(subject, policy)


def policy_digest(subject: Subject, policy: str) -> str:
    """Of what is played, of this policy's own files and of what they import."""
    return _digest((*subject.played_by,), tuple(subject.functions(policy)), _own_file(subject))


def bound_digest(subject: Subject) -> str:
    return _digest((*subject.played_by, *subject.bounded_by), (), _own_file(subject))


def _own_file(subject: Subject) -> str:
    """Where its functions stand: between what it plays and the row that comes of it."""
    return inspect.getsourcefile(subject.play) or ""


@cache
def _digest(modules: tuple[str, ...], functions: tuple[object, ...], file: str) -> str:
    files: set[Path] = {Path(file)} if file else set()
    for module in modules:
        files |= imported(module)
    for function in functions:
        own = inspect.getsourcefile(inspect.unwrap(function))  # type: ignore[arg-type]
        files |= imported(function.__module__) | ({Path(own)} if own else set())
    return digest(files, MADE_WITH)
