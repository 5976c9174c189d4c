"""A kernel kept on disk is used again as long as nothing that it reaches has changed, and never
after."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba
import pytest
from numba.core.registry import CPUDispatcher

import tocsin.lab
from tocsin.lab.jit.imports import ROOT, digest, imported


def kernels() -> Iterator[tuple[str, Any]]:
    """Every compiled function that the lab has, by name."""
    for one in pkgutil.walk_packages(tocsin.lab.__path__, "tocsin.lab."):
        for name, value in vars(importlib.import_module(one.name)).items():
            if isinstance(value, CPUDispatcher):
                yield f"{one.name}.{name}", value


def reached(function: Any) -> set[Path]:
    """The files of all functions that it calls, itself or through others, as they are bound."""
    files, seen, waiting = set(), set(), [function]
    while waiting:
        one = waiting.pop()
        one = getattr(one, "py_func", one)
        if not isinstance(one, FunctionType) or one in seen:
            continue
        seen.add(one)
        files.add(Path(inspect.getfile(one)))
        for name in one.__code__.co_names:
            value = one.__globals__.get(name)
            waiting.append(value)
            if isinstance(value, ModuleType):
                waiting += [getattr(value, other, None) for other in one.__code__.co_names]
    return {file for file in files if file.is_relative_to(ROOT)}


def test_a_kernels_digest_is_of_every_file_that_it_reaches() -> None:
    known = dict(kernels())
    assert "tocsin.lab.simulators.result_cache.kernel.simulate" in known
    for name, kernel in known.items():
        missing = reached(kernel) - imported(kernel.py_func.__module__)
        assert not missing, f"{name} is kept although {missing} may change"
    simulate = known["tocsin.lab.simulators.result_cache.kernel.simulate"]
    assert {"caches.py", "heap.py", "estimates.py"} <= {file.name for file in reached(simulate)}


def test_imports_are_followed_however_they_are_written(copy: Copy) -> None:
    (copy.lab / "deep").mkdir()
    for name, text in {
        "deep/__init__": "from . import first",
        "deep/first": "from ..second import value",
        "second": "import tocsin.lab.third as other",
        "third": "def later():\n    from tocsin.lab import fourth",
        "fourth": "from tocsin.lab.fifth import *",
        "fifth": "from tocsin.lab.deep import first",
        "outer": "",
    }.items():
        (copy.lab / f"{name}.py").write_text(text)
    found = copy.python(
        "import json\n"
        "from tocsin.lab.jit.imports import ROOT, imported\n"
        "files = imported('tocsin.lab.deep')\n"
        "print(json.dumps([str(one.relative_to(ROOT / 'lab')) for one in files]))"
    )
    assert set(found) == {
        *("deep/__init__.py", "deep/first.py", "second.py", "third.py", "fourth.py", "fifth.py"),
        "__init__.py",
    }


def test_digests_tell_contents_and_versions_apart(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("one")
    second.write_text("two")
    before = digest([first, second], "1.0")
    assert before == digest([second, first], "1.0")
    assert before != digest([first, second], "1.1")
    assert before != digest([first], "1.0")
    first.write_text("onet")  # the same letters, in other files
    second.write_text("wo")
    assert before != digest([first, second], "1.0")


OUTER = """
from tocsin.lab.jit.functions import compiled, inlined
from tocsin.lab.inner import scale

@inlined
def half(x):
    return x / 2

@compiled
def outer(x):
    return half(scale(x))
"""
INNER = """
from tocsin.lab.jit.functions import compiled
from tocsin.lab.constants import FACTOR

@compiled
def scale(x):
    return x * FACTOR
"""
RUN = """
import json
from tocsin.lab.outer import outer
print(json.dumps([outer(3.0), sum(outer.stats.cache_hits.values())]))
"""


TOGETHER = """
import json, pathlib, sys, time
from tocsin.lab.outer import outer
kept = pathlib.Path(sys.argv[1])
(kept / sys.argv[2]).touch()
while len(list(kept.iterdir())) < 2:
    time.sleep(0.001)
print(json.dumps([outer(3.0), sum(outer.stats.cache_misses.values())]))
"""


class Copy:
    """Our package at another place, with a small kernel in three files: outer, inner, constants."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lab = root / "tocsin" / "lab"
        shutil.copytree(ROOT, root / "tocsin", ignore=shutil.ignore_patterns("__pycache__"))
        for name, text in (("outer", OUTER), ("inner", INNER), ("constants", "FACTOR = 10.0\n")):
            (self.lab / f"{name}.py").write_text(text)
        self.environment = {"XDG_CACHE_HOME": str(root / "kept")}

    def python(self, program: str) -> Any:
        return self.answer(self.start(program))

    def start(self, program: str, *words: str) -> subprocess.Popen[str]:
        cleared = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
        return subprocess.Popen(
            [sys.executable, "-B", "-c", program, *words],
            env={**cleared, "PYTHONPATH": str(self.root), **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def answer(self, process: subprocess.Popen[str]) -> Any:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        return json.loads(output)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_a_stale_kernel_never_runs_and_a_fresh_one_is_not_compiled_again(copy: Copy) -> None:
    assert copy.python(RUN) == [15.0, 0]
    assert copy.python(RUN) == [15.0, 1]
    with (copy.lab / "reports" / "looks.py").open("a") as file:
        file.write("\n# of no concern to kernels\n")
    assert copy.python(RUN) == [15.0, 1]
    (copy.lab / "constants.py").write_text("FACTOR = 20.0\n")  # as long, and imported by inner only
    assert copy.python(RUN) == [30.0, 0]
    (copy.lab / "constants.py").write_text("FACTOR = 10.0\n")
    assert copy.python(RUN) == [15.0, 1]


def test_of_two_processes_that_want_a_kernel_one_compiles_it(copy: Copy, tmp_path: Path) -> None:
    (ready := tmp_path / "ready").mkdir()
    both = [copy.start(TOGETHER, str(ready), name) for name in ("first", "second")]
    answers = [copy.answer(process) for process in both]
    assert sorted(answers) == [[15.0, 0], [15.0, 1]]


def test_numbas_own_setting_chooses_the_directory_and_keeps_the_guard(copy: Copy) -> None:
    chosen = copy.root / "chosen"
    copy.environment["NUMBA_CACHE_DIR"] = str(chosen)
    assert copy.python(RUN) == [15.0, 0]
    assert list(chosen.rglob("*.nbi"))
    (copy.lab / "constants.py").write_text("FACTOR = 20.0\n")
    assert copy.python(RUN) == [30.0, 0]


def test_where_nothing_can_be_kept_nothing_is(copy: Copy) -> None:
    (copy.root / "kept").write_text("a file where the directory should be")
    assert copy.python(RUN) == [15.0, 0]
    assert not list(copy.root.rglob("*.nbi"))


def test_functions_of_others_are_compiled_and_not_kept() -> None:
    from tocsin.lab.jit.functions import compiled

    @compiled
    def twice(x: float) -> float:
        return 2 * x

    assert twice(2.0) == 4.0
    assert isinstance(twice, numba.core.registry.CPUDispatcher)
    assert not twice.stats.cache_path
