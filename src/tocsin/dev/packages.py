"""Debian's packages, installed when we may. Starts no service, and lets no package start one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tocsin.errors import Unavailable

SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"  # not on everybody's PATH
CLUSTER_FOLDER = Path("/etc/postgresql-common/createcluster.d")
POLICY = Path("/usr/sbin/policy-rc.d")


def find_program(name: str) -> Path | None:
    path = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}")
    return Path(path) if path else None


def advice(title: str, packages: Sequence[str]) -> str:
    return (
        f"{title} is not installed: apt-get install {' '.join(packages)}, or tocsin dev install as"
        " root on Debian"
    )


def apt_install(title: str, packages: Sequence[str]) -> None:
    """Install packages; Unavailable with what to do if that is not possible."""
    apt = shutil.which("apt-get")
    if os.geteuid() != 0 or apt is None:
        raise Unavailable(advice(title, packages))
    with _no_server_of_its_own():
        for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            done = subprocess.run(
                [apt, "-o", "DPkg::Lock::Timeout=300", *words],
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            if done.returncode != 0:
                last = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
                raise Unavailable(f"apt-get could not install {title}: {last}")


@contextmanager
def _no_server_of_its_own() -> Iterator[None]:
    """PostgreSQL's package would make a server on port 5432 and start it now and at every boot;
    others, as nginx', start theirs unless the machine's policy forbids it."""
    cluster_file = CLUSTER_FOLDER / "tocsin.conf"
    cluster_file.parent.mkdir(parents=True, exist_ok=True)
    cluster_file.write_text("create_main_cluster = false\n")
    ours = [cluster_file]
    if not POLICY.exists():
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
        ours.append(POLICY)
    try:
        yield
    finally:
        for file in ours:
            file.unlink(missing_ok=True)
