"""Compilation of the lab's kernels and of the policies they call, kept on disk.

Kernels are plain Python over NumPy arrays: with NUMBA_DISABLE_JIT=1 they run as such and give the
same answers. Numba notices a change of a compiled function's own file only. Since kernels call
functions of other files, the place on disk is named by everything that a function's module imports:
an edit compiles anew what it reaches, and nothing else.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import config, types
from numba.extending import intrinsic

from tocsin.lab.jit.imports import digest, imported
from tocsin.lab.jit.locks import PlaceLock, lock_of

F = TypeVar("F", bound=Callable[..., Any])

_config = cast(Any, config)  # numba fills it as it starts
JIT = not _config.DISABLE_JIT
_setting = threading.Lock()


def compiled(function: F) -> F:
    compile_ = partial(numba.njit, nogil=True, error_model="numpy")
    place = _place(function.__module__)
    if place is None:
        return cast(F, compile_()(function))
    with _setting:  # numba takes the place as it is now
        before, _config.CACHE_DIR = _config.CACHE_DIR, str(place)
        try:
            kept: Any = compile_(cache=True)(function)
        finally:
            _config.CACHE_DIR = before
    if JIT:
        kept.compile = _one_process_at_a_time(kept.compile, lock_of(place))
    return cast(F, kept)


def _one_process_at_a_time(compile_: Callable[[Any], Any], lock: PlaceLock) -> Callable[[Any], Any]:
    def compile_or_load(signature: Any) -> Any:
        with lock():
            return compile_(signature)

    return compile_or_load


@cache
def _place(module: str) -> Path | None:
    """Where compiled functions of a module of ours are kept, if that can be written. (Numba would
    else keep them beside the source, whatever becomes of the files that they call.)"""
    files = imported(module)
    if not files:
        return None
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    kept = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home) / "tocsin" / "kernels")
    place = kept / digest(files, f"{numba.__version__} {np.__version__}")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return place if os.access(place, os.W_OK) else None


def inlined(function: F) -> F:
    """Compiled into its callers: a call would count references to every array it is given."""
    return cast(F, numba.njit(inline="always", error_model="numpy")(function))


def fused(function: F) -> F:
    """The same, but by the machine's compiler: for functions that have loops and many callers."""
    return cast(F, numba.njit(forceinline=True, error_model="numpy")(function))


def _borrow(context: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        borrowed = context.make_array(signature.return_type)(context, builder, arguments[0])
        borrowed.meminfo = borrowed.parent = context.get_constant_null(types.voidptr)
        return borrowed._getvalue()

    return array(array), generate


borrow: Any = intrinsic(_borrow) if JIT else lambda array: array
"""The same array without an owner, for kernels. Numba counts references to an owned array whenever
a function is given it, which took half of their time; whoever calls the kernel keeps it alive."""


@cache
def callback(function: Callable[..., Any], signature: Any) -> Callable[..., Any]:
    """A policy as a value that kernels take: they are compiled once, not once a policy."""
    if not JIT:
        return function
    if isinstance(function, partial):  # a policy with the values of its parameters
        return cast(Callable[..., Any], numba.cfunc(signature)(_with_values(function)))
    return cast(Callable[..., Any], numba.cfunc(signature)(function))


def _with_values(bound: partial[Any]) -> Callable[..., Any]:
    names = list(inspect.signature(bound.func).parameters)
    seen = ", ".join(name for name in names if name not in bound.keywords)
    given = ", ".join(
        repr(bound.keywords[name]) if name in bound.keywords else name for name in names
    )
    scope: dict[str, Any] = {"function": numba.njit(error_model="numpy")(bound.func)}
    exec(f"def call({seen}):\n    return function({given})\n", scope)  # noqa: S102  # its own names
    return cast(Callable[..., Any], scope["call"])
