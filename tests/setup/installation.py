"""The package's wheel, and environments that hold it with nothing but what it declares.

What an extra brings is followed through the metadata of the packages in the development
environment, and linked from there: no index is asked, nothing large is copied, and a library that
is not declared is not there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SITE = Path(sysconfig.get_path("purelib"))
CLEAN = {
    key: text
    for key, text in os.environ.items()
    if not key.startswith(("TOCSIN_", "PYTHON", "COV_"))
}


def build_wheel(folder: Path) -> Path:
    """From a copy of the sources: setuptools would leave its own files among them, and take old
    ones up again."""
    sources = folder / "sources"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", sources / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    pip("wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(folder), str(sources))
    (wheel,) = folder.glob("tocsin-*.whl")
    return wheel


def pip(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Environment:
    """A virtual environment of its own with the wheel, and what it needs with these extras."""

    def __init__(self, folder: Path, wheel: Path, *extras: str) -> None:
        self.folder = folder
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = folder / "bin" / "python"
        self.command = folder / "bin" / "tocsin"
        python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self.site = folder / "lib" / python / "site-packages"
        self._pip("install", "--no-deps", "--no-index", "--no-compile", str(wheel))
        for name in self._needed(extras):
            link_distribution(name, self.site)

    def check(self) -> str:
        """Whether everything that a package here declares is here, as pip sees it."""
        return self._pip("check")

    def run(self, *words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=cwd,
            env=CLEAN | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def size_bytes(self) -> int:
        """Of what the packages carry; the byte code that Python writes beside it is not theirs."""
        return sum(
            (Path(folder) / file).stat().st_size
            for folder, _, files in os.walk(self.site, followlinks=True)
            for file in files
            if not file.endswith(".pyc")
        )

    def _pip(self, *words: str) -> str:
        return pip("--python", str(self.python), *words)

    def _needed(self, extras: tuple[str, ...]) -> set[str]:
        (info,) = self.site.glob("tocsin-*.dist-info")
        lines = (info / "METADATA").read_text(encoding="utf-8").splitlines()
        declared = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]
        return needed(declared, extras)


def needed(declared: list[str], extras: tuple[str, ...]) -> set[str]:
    """The names of all packages that these requirements lead to."""
    names, waiting = set[str](), [("tocsin", extra) for extra in ("", *extras)]
    seen = set(waiting)
    while waiting:
        package, extra = waiting.pop()
        requires = declared if package == "tocsin" else distribution(package).requires or []
        for requirement in map(Requirement, requires):
            if requirement.marker is None:
                wanted = extra == ""
            else:
                wanted = requirement.marker.evaluate({"extra": extra})
            if not wanted:
                continue
            names.add(requirement.name)
            found = {(requirement.name, each) for each in ("", *requirement.extras)} - seen
            seen |= found
            waiting += found
    return names - {"tocsin"}


def link_distribution(name: str, site: Path) -> None:
    tops = {file.parts[0] for file in distribution(name).files or [] if file.parts}
    for top in tops - {"..", "__pycache__"}:
        if (SITE / top).exists() and not (site / top).exists():
            (site / top).symlink_to(SITE / top)
