"""What an experiment is about: how its workload is made, how a policy is played over it, how good
any policy could be, how it is played on a live system. The studies themselves are in `studies/`;
sweeps know them by this form alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from tocsin.lab.spec.progress import Progress

Row = dict[str, Any]


class SavedWorkload(Protocol):
    def save(self, directory: Path) -> None: ...


class Servers(Struct, frozen=True):
    """Servers that a live run is given; an empty address has it start its own."""

    log: str = ""
    database: str = ""


OWN_SERVERS = Servers()


class BrokenPromise(Exception):
    """A promise of the live system was not kept: what is measured then is worth nothing."""


class LivePoint(Protocol):
    """What a live system needs to know of a point."""

    @property
    def workload(self) -> Any: ...  # its settings
    @property
    def environment(self) -> Any: ...
    @property
    def policy(self) -> str: ...


LivePlay = Callable[[Any, str, Any], Row]  # what is played, policy, environment
Predict = Callable[[Any, str], Row]  # what is played, policy


class LiveForm(Struct, frozen=True, kw_only=True):
    """How a study is played on a live system, and predicted from what the live points show."""

    draw: Callable[[Any, int], Any]  # what is played: workload settings, seed
    stage: Callable[[Sequence[LivePoint], Progress, Servers], AbstractContextManager[LivePlay]]
    predictor: Callable[[Sequence[LivePoint], Sequence[Row]], Predict]


def _as_they_are(settings: Any, value: int) -> Any:
    return settings


class Study(Struct, frozen=True, kw_only=True):
    """All functions stand in modules, so that tasks can carry them to other machines, and so that
    a digest of the code that they reach tells which points are still theirs.

    A *value* is one of the experiment's axis. Some change the workload (`at` gives its settings
    there), others what is played with it.
    """

    name: str
    workload: type[Struct]  # settings of the workload
    environment: type[Struct]  # settings of what it meets: a network, logs
    make: Callable[[Any, int], SavedWorkload]  # workload settings, seed
    load: Callable[[Path], Any]  # what `save` wrote, mapped from its files
    play: Callable[[Any, str, int, Any], Row]  # workload, policy, value, environment
    bound: Callable[[Any, int, Any], Row] | None = None  # workload, value, environment
    at: Callable[[Any, int], Any] = _as_they_are
    functions: Callable[[str], list[Any]]  # of a policy; raises if there is no such policy
    live: LiveForm | None = None
