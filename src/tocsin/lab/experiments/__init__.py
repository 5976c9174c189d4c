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
from tocsin.lab.declaring.experiment import Experiment


@cache
def experiments() -> dict[str, Experiment]:
    """All of them, by name."""
    modules = (importlib.import_module(f"{__name__}.{one.name}") for one in _files())
    return gathered(modules)


def experiment_named(name: str) -> Experiment:
    known = experiments()
    if name not in known:
        raise NotFound(
            f"there is no experiment {name!r}",
            field="experiment",
            hint=f"one of {', '.join(known)} (tocsin lab list tells about them)",
        )
    return known[name]


def experiments_named(name: str) -> list[Experiment]:
    """The one of this name, or all whose names begin with it and a hyphen."""
    together = [one for one in experiments().values() if one.name.startswith(f"{name}-")]
    return together if together and name not in experiments() else [experiment_named(name)]


def gathered(modules: Iterable[ModuleType]) -> dict[str, Experiment]:
    found: dict[str, Experiment] = {}
    origin: dict[str, str] = {}
    for module in modules:
        declared = getattr(module, "EXPERIMENTS", [getattr(module, "EXPERIMENT", None)])
        for experiment in declared:
            if not isinstance(experiment, Experiment):
                raise TypeError(f"{module.__name__} declares no EXPERIMENT")
            if experiment.name in found:
                raise ValueError(
                    f"two experiments are called {experiment.name!r}: "
                    f"{origin[experiment.name]} and {module.__name__}"
                )
            _refuse_twice(experiment)
            found[experiment.name] = experiment
            origin[experiment.name] = module.__name__
    return dict(sorted(found.items()))


def _refuse_twice(experiment: Experiment) -> None:
    named = {
        "readings": [reading.name for reading in experiment.readings],
        "figures": [figure.name for figure in experiment.figures],
        "claims": [claim.name for claim in experiment.claims],
        "policies": list(experiment.policies),
    }
    for what, names in named.items():
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"{experiment.name}: {what} named twice: {', '.join(sorted(twice))}")


def _files() -> Iterable[pkgutil.ModuleInfo]:
    return sorted(pkgutil.iter_modules(__path__), key=lambda one: one.name)
