"""Compilation of the lab's kernels and of the policies they call, kept on disk.

Kernels are plain Python over NumPy arrays: with NUMBA_DISABLE_JIT=1 they run as such and give the
same answers. Numba notices a change of a compiled function's own file only; since kernels call
the policies' functions, the place on disk is named by all of their sources.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import config, types
from numba.extending import intrinsic

import tocsin.policies

F = TypeVar("F", bound=Callable[..., Any])

_config = cast(Any, config)  # numba fills it as it starts
JIT = not _config.DISABLE_JIT


def sources_digest() -> str:
    """Of everything that decides a simulation's result."""
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    here, policies = Path(__file__).parent.parent, Path(str(tocsin.policies.__file__)).parent
    for path in sorted([*here.rglob("*.py"), *policies.rglob("*.py")]):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _kernels_directory() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "tocsin" / "kernels" / sources_digest()


if not os.environ.get("NUMBA_CACHE_DIR"):
    _config.CACHE_DIR = str(_kernels_directory())


def compiled(function: F) -> F:
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """Compiled into its callers: a call would count references to every array it is given."""
    return cast(F, numba.njit(inline="always", error_model="numpy")(function))


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
    return cast(Callable[..., Any], numba.cfunc(signature)(function))
