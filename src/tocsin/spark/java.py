"""Finding the Java that Spark needs. Runs none of Spark and installs nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tocsin.errors import SettingError

OLDEST = 17
SYSTEM_FOLDER = Path("/usr/lib/jvm")


def find_java(
    environ: Mapping[str, str] | None = None, *, folder: Path = SYSTEM_FOLDER
) -> Path | None:
    """The home of a Java that Spark can use: JAVA_HOME, then PATH, then the system's folder.

    The nearest to the oldest that works wins in the folder: it is the one Spark was tried with.
    """
    environ = os.environ if environ is None else environ
    named = [Path(environ["JAVA_HOME"])] if environ.get("JAVA_HOME") else []
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        named.append(Path(on_path).resolve().parent.parent)
    for home in named:
        if _version(home) >= OLDEST:
            return home
    installed = {(_version(home), home) for home in _homes(folder)}
    usable = sorted(candidate for candidate in installed if candidate[0] >= OLDEST)
    return usable[0][1] if usable else None


def require_java(environ: Mapping[str, str] | None = None, *, folder: Path = SYSTEM_FOLDER) -> Path:
    """Like `find_java`, but says what to do when there is none."""
    home = find_java(environ, folder=folder)
    if home is None:
        raise SettingError(
            f"Spark needs Java {OLDEST} or newer, and none was found",
            field="JAVA_HOME",
            hint=f"install openjdk-{OLDEST}-jre-headless or set JAVA_HOME",
        )
    return home


def _homes(folder: Path) -> Iterable[Path]:
    return {java.parent.parent.resolve() for java in folder.glob("*/bin/java")}


def _version(home: Path) -> int:
    """The major version of a Java home; 0 if it is none. The release file spares a process."""
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except OSError:
        text = _ask(home)
    version = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(version[1]) if version and (home / "bin" / "java").exists() else 0


def _ask(home: Path) -> str:
    try:
        done = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr
