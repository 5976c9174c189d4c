"""The experiments: one file each, found by itself. A new file is all a new experiment needs.

Each declares `EXPERIMENT`, or several as `EXPERIMENTS`: `overlay-load` and `overlay-slots` are run
together as `overlay`. Two of one name, or a file without one, is an error at once.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from types import ModuleType

from tocsin.errors import NotFound
from tocsin.lab.spec.experiment import Experiment

RENAMED = {"homing": "return-rate", "assay": "learned-demand"}
"""After their policies."""


@cache
def experiments() -> dict[str, Experiment]:
    """All of them, by name."""
    modules = (importlib.import_module(f"{__name__}.{file.name}") for file in _files())
    return gathered(modules)


def experiment_named(name: str) -> Experiment:
    known = experiments()
    if name in RENAMED:
        raise NotFound(
            f"the experiment {name!r} is called {RENAMED[name]!r} now",
            field="experiment",
            hint=f"write {RENAMED[name]}",
        )
    if name not in known:
        raise NotFound(
            f"there is no experiment {name!r}",
            field="experiment",
            hint=f"one of {', '.join(known)} (tocsin lab list tells about them)",
        )
    return known[name]


def experiments_named(name: str) -> list[Experiment]:
    """The one of this name, or all whose names begin with it and a hyphen."""
    together = [
        experiment
        for experiment in experiments().values()
        if experiment.name.startswith(f"{name}-")
    ]
    return together if together and name not in experiments() else [experiment_named(name)]


def gathered(modules: Iterable[ModuleType]) -> dict[str, Experiment]:
    registered: dict[str, Experiment] = {}
    origin: dict[str, str] = {}
    for module in modules:
        declared = getattr(module, "EXPERIMENTS", [getattr(module, "EXPERIMENT", None)])
        for experiment in declared:
            if not isinstance(experiment, Experiment):
                raise TypeError(f"{module.__name__} declares no EXPERIMENT")
            if experiment.name in registered:
                raise ValueError(
                    f"two experiments are called {experiment.name!r}: "
                    f"{origin[experiment.name]} and {module.__name__}"
                )
            _refuse_twice(experiment)
            registered[experiment.name] = experiment
            origin[experiment.name] = module.__name__
    return dict(sorted(registered.items()))


def _refuse_twice(experiment: Experiment) -> None:
    named = {
        "variants": [variant.name for variant in experiment.variants],
        "figures": [figure.name for figure in experiment.figures],
        "claims": [claim.name for claim in experiment.claims],
        "policies": list(experiment.policies),
    }
    for what, names in named.items():
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"{experiment.name}: {what} named twice: {', '.join(sorted(twice))}")


def _files() -> Iterable[pkgutil.ModuleInfo]:
    return sorted(pkgutil.iter_modules(__path__), key=lambda file: file.name)
