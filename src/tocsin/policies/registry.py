"""A loud registry: one per family of policies. A collision, an unknown name or a value out of its
bounds raises.

A family is a package, a policy one file in it that registers itself; `find_all` imports them, so
that a new file is all a new policy needs. A file declares all that its policy has: parameters with
their bounds, the state that it keeps, and the further functions by which its cache tells it what
happens.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.policies.grammar import Call, read_call

F = TypeVar("F")


class Parameter(Struct, frozen=True):
    """A number that a policy's name may carry: `threshold(0.2, mu=0.8)`."""

    name: str
    default: float
    at_least: float = 0.0
    at_most: float = float("inf")

    @property
    def bounds(self) -> str:
        if self.at_most == float("inf"):
            return f"at least {self.at_least:g}"
        return f"from {self.at_least:g} to {self.at_most:g}"

    def value(self, text: str) -> float | None:
        """None: no number, or out of bounds."""
        try:
            number = float(text)
        except ValueError:
            return None
        return number if self.at_least <= number <= self.at_most and number < 1e300 else None


class Policy(Struct, Generic[F], frozen=True):
    """What a policy's file declares."""

    name: str
    function: F
    parameters: tuple[Parameter, ...] = ()
    state: type[Struct] | None = None  # what it keeps: its functions take it first
    declared: dict[str, Any] = {}  # what else its family lets it declare

    @property
    def summary(self) -> str:
        """The first paragraph of its documentation, with the paper."""
        return " ".join((inspect.getdoc(self.function) or "").split("\n\n")[0].split())

    @property
    def call(self) -> str:
        """As a user writes it, with the defaults of its parameters."""
        numbers = ", ".join(f"{parameter.default:g}" for parameter in self.parameters)
        return f"{self.name}({numbers})" if numbers else self.name


class Chosen(Struct, Generic[F], frozen=True):
    """A policy with the values of its parameters, as a user chose it."""

    policy: Policy[F]
    values: tuple[float, ...] = ()

    @property
    def function(self) -> F:
        return self.policy.function

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """All that decide: the policy's own, and those by which it observes."""
        hooks = [hook for hook in self.policy.declared.values() if callable(hook)]
        return [self.policy.function, *hooks]

    def start(self) -> Running:
        return Running(self)


class Running:
    """A chosen policy at work in a live cache: its state, and its functions as the cache calls
    them, with what it observes alone. (Kernels keep the same state as a record: `lab.jit`.)"""

    def __init__(self, chosen: Chosen[Any], state: Struct | None = None) -> None:
        self.chosen = chosen
        kind = chosen.policy.state
        self.state = state if state is not None or kind is None else kind()
        self.call = bound(chosen.policy.function, self.state, chosen.values)

    def hook(self, name: str) -> Callable[..., Any] | None:
        """A function that the policy may declare; None: it does not."""
        declared = self.chosen.policy.declared.get(name)
        return None if declared is None else bound(declared, self.state, self.chosen.values)


def bound(
    function: Callable[..., Any], state: Struct | None, values: tuple[float, ...]
) -> Callable[..., Any]:
    """A policy's function as a live cache calls it: it takes the state first, if there is one, and
    the values of the parameters last."""
    names = list(inspect.signature(function).parameters)[-len(values) :] if values else []
    named = dict(zip(names, values, strict=True))
    if state is None:
        return partial(function, **named) if named else function
    return partial(function, state, **named)


class Registry(Generic[F]):
    """Names to policies of one family. `family` is the word used in messages, `field` what users
    call the setting, `declares` what a policy of it may declare besides parameters and state."""

    def __init__(
        self, family: str, field: str, *, declares: tuple[str, ...] = (), stateful: bool = True
    ) -> None:
        self.family = family
        self.field = field
        self._declares = declares
        self._stateful = stateful
        self._policies: dict[str, Policy[F]] = {}
        self._renamed: dict[str, str] = {}

    def register(
        self,
        name: str,
        *parameters: Parameter,
        state: type[Struct] | None = None,
        formerly: str | None = None,
        **declared: Any,
    ) -> Callable[[F], F]:
        """Decorator: `@EVICTION.register("lru")`. Who writes its former name is told this one."""
        unknown = sorted(set(declared) - set(self._declares))
        if unknown or (state is not None and not self._stateful):
            known = ", ".join(self._declares) or "nothing else"
            what = ", ".join(unknown) or "state"
            raise ValueError(
                f"{self.family} policy {name!r} declares {what}; its family knows {known}"
            )

        def add(function: F) -> F:
            if name in self._policies:
                raise ValueError(
                    f"{self.family} policy {name!r} is registered twice: "
                    f"{self._policies[name].function!r} and {function!r}; "
                    f"registered: {self.names}"
                )
            self._policies[name] = Policy(name, function, parameters, state, declared)
            if formerly is not None:
                self._renamed[formerly] = name
            return function

        return add

    def find_all(self, package: str, path: list[str]) -> None:
        """Import every module of the family's package: each registers its policy."""
        for module in pkgutil.iter_modules(path):
            importlib.import_module(f"{package}.{module.name}")

    # -- what users write --------------------------------------------------------------------------

    def choose(self, text: str, field: str = "") -> Chosen[F]:
        """`name(parameter=value, …)`; errors name this field."""
        field = field or self.field
        return self.chosen(read_call(text, f"a policy of {self.family}", field), field)

    def chosen(self, call: Call, field: str = "") -> Chosen[F]:
        field = field or self.field
        policy = self.named(call.name, field)
        return Chosen(policy, _values(policy, call, field))

    def named(self, name: str, field: str = "") -> Policy[F]:
        if name in self._policies:
            return self._policies[name]
        field = field or self.field
        now = self._renamed.get(name)
        if now is not None:
            message = f"the {self.family} policy {name!r} is called {now!r} now"
            raise SettingError(message, field=field, hint=f"write {now}")
        raise SettingError(
            f"no {self.family} policy is called {name!r}",
            field=field,
            hint=f"{nearest(name, self)}{self.family} policies: {self.names}",
        )

    def knows(self, name: str) -> bool:
        """By its name of today, or by the one that it had."""
        return name in self._policies or name in self._renamed

    @property
    def names(self) -> str:
        return ", ".join(self) or "none yet"

    def __getitem__(self, name: str) -> Policy[F]:
        return self.named(name)

    def __contains__(self, name: object) -> bool:
        return name in self._policies

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._policies))


def nearest(name: str, names: Registry[Any] | list[str]) -> str:
    """A part of a hint: the name that was meant, if one is near."""
    near = get_close_matches(name, list(names), 1)
    return f"did you mean {near[0]}? " if near else ""


def _values(policy: Policy[Any], call: Call, field: str) -> tuple[float, ...]:
    """Given by place or by name; what is left out has its default."""
    takes = policy.parameters
    usage = f"write {policy.call}" if takes else f"write {policy.name} alone"
    names = [parameter.name for parameter in takes]
    listed = ", ".join(names) or "no parameters"
    if len(call.positional) > len(takes):
        message = f"{policy.name!r} takes {listed}, not {', '.join(call.positional)!r}"
        raise SettingError(message, field=field, hint=usage)
    given = dict(zip(names, call.positional, strict=False))
    for name, text in call.named:
        if name not in names:
            message = f"{policy.name!r} has no parameter {name!r}: it takes {listed}"
            raise SettingError(message, field=field, hint=f"{nearest(name, names)}{usage}")
        if name in given:
            message = f"{policy.name}'s {name} is given twice"
            raise SettingError(message, field=field, hint=usage)
        given[name] = text
    values = []
    for parameter in takes:
        written = given.get(parameter.name)
        value = parameter.default if written is None else parameter.value(written)
        if value is None:
            message = f"{policy.name}'s {parameter.name} is {written!r}: {parameter.bounds}"
            raise SettingError(message, field=field, hint=usage)
        values.append(value)
    return tuple(values)
