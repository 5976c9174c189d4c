"""nginx, which docs/how-to/proxy.md puts in front of a system. It keeps nothing, and whoever wants
one starts it with a configuration of their own: so it is installed here, and no more."""

from __future__ import annotations

from pathlib import Path

from tocsin.dev.packages import advice, apt_install, find_program
from tocsin.dev.server import Progress
from tocsin.errors import Unavailable


class Nginx:
    name = "nginx"
    title = "nginx"
    packages = ("nginx",)

    @classmethod
    def program(cls) -> Path | None:
        return find_program("nginx")

    @classmethod
    def missing(cls) -> str | None:
        """What this machine lacks to run it, and how to get it; None if nothing."""
        return None if cls.program() else advice(cls.title, cls.packages)

    @classmethod
    def install(cls, progress: Progress) -> None:
        if cls.program() is None:
            progress.begin(f"installing {cls.title}", 0)
            apt_install(cls.title, cls.packages)
            if cls.program() is None:
                raise Unavailable(f"{cls.title} was installed, but is not found")
