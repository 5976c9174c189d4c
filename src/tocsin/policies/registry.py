"""A loud registry: one per family of policies. A collision or an unknown name raises.

A family is a package, a policy one file in it that registers itself; `find_all` imports them, so
that a new file is all a new policy needs.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

from tocsin.errors import SettingError

F = TypeVar("F")
MOST_PARAMETERS = 2
"""Compiled kernels pass this many numbers to every policy of a family that takes any."""


class Parameter(Struct, frozen=True):
    """A number that a policy's name may carry: `threshold(0.2, 0.8)`."""

    name: str
    default: float
    at_least: float = 0.0
    at_most: float = float("inf")


class Policy(Struct, Generic[F], frozen=True):
    name: str
    function: F
    parameters: tuple[Parameter, ...] = ()
    looks_ahead: bool = False  # wants the candidate's prefix and return rate kept

    @property
    def summary(self) -> str:
        """The first paragraph of its documentation, with the paper."""
        return " ".join((inspect.getdoc(self.function) or "").split("\n\n")[0].split())

    @property
    def call(self) -> str:
        """As a user writes it, with the defaults of its parameters."""
        numbers = ", ".join(f"{one.default:g}" for one in self.parameters)
        return f"{self.name}({numbers})" if numbers else self.name


class Registry(Generic[F]):
    """Names to policies of one family. `family` is the word used in messages."""

    def __init__(self, family: str) -> None:
        self.family = family
        self._policies: dict[str, Policy[F]] = {}

    def register(
        self, name: str, *parameters: Parameter, looks_ahead: bool = False
    ) -> Callable[[F], F]:
        """Decorator: `@EVICTION.register("lru")`."""

        def add(function: F) -> F:
            if name in self._policies:
                raise ValueError(
                    f"{self.family} policy {name!r} is registered twice: "
                    f"{self._policies[name].function!r} and {function!r}; "
                    f"registered: {self._listed()}"
                )
            if len(parameters) > MOST_PARAMETERS:
                raise ValueError(
                    f"{self.family} policy {name!r}: at most {MOST_PARAMETERS} numbers"
                )
            self._policies[name] = Policy(name, function, parameters, looks_ahead)
            return function

        return add

    def find_all(self, package: str, path: list[str]) -> None:
        """Import every module of the family's package: each registers its policy."""
        for module in pkgutil.iter_modules(path):
            importlib.import_module(f"{package}.{module.name}")

    def __getitem__(self, name: str) -> Policy[F]:
        try:
            return self._policies[name]
        except KeyError:
            raise SettingError(
                f"no {self.family} policy is called {name!r}",
                field="cache_policy",
                hint=f"{self.family} policies: {self._listed()}",
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._policies

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._policies))

    def _listed(self) -> str:
        return ", ".join(self) or "none yet"
