"""A loud registry: one per family of policies. A collision or an unknown name raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from tocsin.errors import SettingError

F = TypeVar("F")


class Registry(Generic[F]):
    """Names to policies of one family. `family` is the word used in messages."""

    def __init__(self, family: str) -> None:
        self.family = family
        self._policies: dict[str, F] = {}

    def register(self, name: str) -> Callable[[F], F]:
        """Decorator: `@EVICTION.register("lru")`."""

        def add(policy: F) -> F:
            if name in self._policies:
                raise ValueError(
                    f"{self.family} policy {name!r} is registered twice: "
                    f"{self._policies[name]!r} and {policy!r}; registered: {self._listed()}"
                )
            self._policies[name] = policy
            return policy

        return add

    def __getitem__(self, name: str) -> F:
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
