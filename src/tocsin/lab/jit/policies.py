"""Policies as kernels call them: compiled from the very functions of their files, with a record of
their own.

A kernel is compiled once, not once a policy, so it must not know what a policy's record holds: it
hands on a pointer (`POLICY`), and what is called takes it for what it is. The record holds the
values of the policy's parameters and the fields of its state, whole numbers, floats and arrays of
floats, with the values that a new state of the live cache has.
"""

from __future__ import annotations

from collections.abc import Callable
from dis import get_instructions
from functools import cache
from types import FunctionType
from typing import Any, cast

import numba
import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numba.core import types
from numba.extending import intrinsic

from tocsin.lab.jit.functions import JIT, callback, compiled
from tocsin.lab.jit.records import records
from tocsin.policies.registry import Chosen

_POINTER = np.dtype([("begin", "i8")])
POLICY = numba.from_dtype(_POINTER) if JIT else "policy"
"""The type of a policy's record, as kernels know it."""
_VALUES = "_values"  # of parameters: before the state's fields


def record_of(state: type[Struct] | None, values: tuple[float, ...] = ()) -> Any:
    """A policy's record before the first event: one in an array."""
    record = records(1, _record_dtype(state, len(values)))
    record[_VALUES][0, : len(values)] = values
    for name, value in _fields(state).items():
        record[name][0] = value
    return np.ndarray(1, _POINTER, record.data) if JIT else record  # a view keeps it alive


def record_of_chosen(chosen: Chosen[Any]) -> Any:
    return record_of(chosen.policy.state, chosen.values)


@cache
def policy_callback(
    function: Callable[..., Any],
    state: type[Struct] | None,
    values: int,
    answer: Any,
    observed: tuple[Any, ...],
) -> Callable[..., Any]:
    """A policy's function as kernels call it: with its record, and with what they observe."""
    seen = [f"seen{place}" for place in range(len(observed))]
    given = [
        *(["record"] if state else []),
        *seen,
        *(f"record.{_VALUES}[{place}]" for place in range(values)),
    ]
    source = (
        f"def call({', '.join(['policy', *seen])}):\n"
        "    record = known(policy)\n"
        f"    return function({', '.join(given)})\n"
    )
    dtype = _record_dtype(state, values)
    names = {
        "known": _known(numba.from_dtype(dtype)) if JIT else lambda policy: policy,
        "function": _jitted(function),
    }
    exec(source, names)  # noqa: S102  # so many arguments as the family observes
    return callback(cast(Any, names["call"]), answer(POLICY, *observed) if JIT else source)


def chosen_callback(
    chosen: Chosen[Any], answer: Any, *observed: Any, hook: str | None = None
) -> Callable[..., Any]:
    """The function of a chosen policy, or a further one that it declares. What is not declared is
    never called: then it is one that does nothing."""
    policy = chosen.policy
    function = policy.declared.get(hook) if hook else policy.function
    if function is None:
        return unused_callback(answer, *observed)
    return policy_callback(function, policy.state, len(chosen.values), answer, observed)


def unused_callback(answer: Any, *observed: Any) -> Callable[..., Any]:
    """In the place of a function that the policy does not have."""
    return policy_callback(_nothing(answer), None, 0, answer, observed)


def _fields(state: type[Struct] | None) -> dict[str, Any]:
    return asdict(state()) if state else {}


@cache
def _record_dtype(state: type[Struct] | None, values: int) -> np.dtype[Any]:
    described: list[Any] = [(_VALUES, "f8", (max(1, values),))]
    for name, value in _fields(state).items():
        if isinstance(value, bool | int):
            described.append((name, "i8"))
        elif isinstance(value, float):
            described.append((name, "f8"))
        else:
            described.append((name, "f8", np.shape(value)))
    return np.dtype(described, align=True)


def _known(record: Any) -> Any:
    """The same pointer, as one to what is there."""

    def known(context: Any, policy: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], context.get_value_type(record))

        return record(policy), generate

    return intrinsic(known)


@cache
def _jitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """With all functions that it calls by their names: files of policies are plain Python."""
    if not JIT or not isinstance(function, FunctionType):
        return function
    around = function.__globals__
    called = {
        name: _jitted(around[name])
        for name in _global_names(function)
        if isinstance(around.get(name), FunctionType) and around[name] is not function
    }
    same = FunctionType(
        function.__code__,
        {**around, **called},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    return compiled(cast(Callable[..., Any], same))


def _global_names(function: FunctionType) -> set[str]:
    return {step.argval for step in get_instructions(function) if step.opname == "LOAD_GLOBAL"}


def _nothing(answer: Any) -> Callable[..., Any]:
    return _no_answer if answer is types.void else _zero


def _no_answer(*seen: Any) -> None:
    return None


def _zero(*seen: Any) -> int:
    return 0
