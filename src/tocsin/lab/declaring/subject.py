"""What an experiment is about: how its workload is made, how a policy is played over it, how good
any policy could be. The subjects themselves are in `subjects/`; sweeps know them by this form
alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

Row = dict[str, Any]


class Made(Protocol):
    """A workload."""

    def save(self, directory: Path) -> None: ...


def _as_they_are(settings: Any, value: int) -> Any:
    return settings


class Subject(Struct, frozen=True, kw_only=True):
    """All functions stand in modules, so that tasks can carry them to other machines.

    A *value* is one of the experiment's axis. Some change the workload (`at` gives its settings
    there), others what is played with it.
    """

    name: str
    workload: type[Struct]  # settings of the workload
    surroundings: type[Struct]  # settings of what it meets: a network, logs
    make: Callable[[Any, int], Made]  # workload settings, seed
    load: Callable[[Path], Any]  # what `save` wrote, mapped from its files
    play: Callable[[Any, str, int, Any], Row]  # workload, policy, value, surroundings
    bound: Callable[[Any, int, Any], Row] | None = None  # workload, value, surroundings
    at: Callable[[Any, int], Any] = _as_they_are
    functions: Callable[[str], list[Any]]  # of a policy; raises if there is no such policy
    played_by: tuple[str, ...]  # modules that decide what is played …
    bounded_by: tuple[str, ...] = ()  # … and what bounds it
    live_by: tuple[str, ...] = ()  # … and what is played on a live system
