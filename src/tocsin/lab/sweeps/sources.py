"""Which code decides a point's result: a digest of it keeps points of different code apart.

The code is what the study's own functions reach: no list of modules can be forgotten. A change to
a figure or a claim keeps the points, and a new policy keeps those of the others. What was measured
on a live system stays true of that day: only what was played counts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from tocsin.lab.jit.imports import digest, imported
from tocsin.lab.spec.study import Study

MADE_WITH = np.__version__  # its random streams
POLICIES = "tocsin.policies"  # a point's own policy counts, and no other


def point_digest(study: Study, kind: str, policy: str) -> str:
    """Of a point of this kind: no policy is a bound's."""
    if not policy:
        return bound_digest(study)
    if kind == "live":
        assert study.live is not None
        return _digest((study.live.draw,), tuple(study.functions(policy)))
    return policy_digest(study, policy)


def policy_digest(study: Study, policy: str) -> str:
    """Of what is played, of this policy's own files and of what they import."""
    return _digest(_played(study), tuple(study.functions(policy)))


def bound_digest(study: Study) -> str:
    assert study.bound is not None
    return _digest((*_played(study), study.bound), ())


def _played(study: Study) -> tuple[Callable[..., Any], ...]:
    return (study.make, study.at, study.play)


@cache
def _digest(played: tuple[Callable[..., Any], ...], policy: tuple[Any, ...]) -> str:
    files: set[Path] = set()
    for function in played:
        files |= code_of(function)
    for function in policy:
        files |= imported(function.__module__) | {_file(function)}
    return digest(files, MADE_WITH)


@cache
def code_of(function: Callable[..., Any]) -> frozenset[Path]:
    """The function's own file, and our files that it needs: those that its names lead to, for
    itself and the functions of its file that it calls, and all that these import."""
    files = {_file(function)}
    waiting: list[Any] = [function]
    seen = set()
    while waiting:
        called = inspect.unwrap(waiting.pop())
        if isinstance(called, type):
            waiting += [method for method in vars(called).values() if callable(method)]
        elif isinstance(called, FunctionType) and called not in seen:
            seen.add(called)
            for value in _named(called):
                module = _module(value)
                if module == called.__module__:
                    waiting.append(value)
                elif not module.startswith(POLICIES):
                    files |= imported(module)
    return frozenset(files)


def _named(function: FunctionType) -> Iterator[Any]:
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        yield from (
            function.__globals__[name] for name in code.co_names if name in function.__globals__
        )


def _module(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    return str(getattr(value, "__module__", None) or "")


def _file(function: Any) -> Path:
    return Path(inspect.getsourcefile(inspect.unwrap(function)) or "")
