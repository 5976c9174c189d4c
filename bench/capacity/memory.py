"""How much memory processes use: Java's after a collection, others' as the kernel counts it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil

from tocsin.spark.java import find_java

LIMIT_S = 60.0


def by_process(roots: Sequence[tuple[str, int]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, pid in roots:
        if not psutil.pid_exists(pid):  # a client that was there for some loads
            continue
        root = psutil.Process(pid)
        sums[name] = sums.get(name, 0.0) + _share(root)
        for child in root.children(recursive=True):
            own = "Java" if child.name() == "java" else name
            used = _of_java(child) if own == "Java" else _share(child)
            sums[own] = sums.get(own, 0.0) + used
    return sums


def _share(process: psutil.Process) -> float:
    """What is shared by processes is divided among them: PostgreSQL's share most of theirs."""
    return float(process.memory_full_info().pss)


def _of_java(process: psutil.Process) -> float:
    """What its objects take, and all that it has besides its heap; a heap that grew and was not
    given back says nothing."""
    tool = _tool()
    if tool is None:
        return float(process.memory_info().rss)
    for words in (["GC.run"], ["GC.heap_info"]):
        told = subprocess.run(
            [tool, str(process.pid), *words], capture_output=True, text=True, timeout=LIMIT_S
        ).stdout
    heap = re.search(r"heap\s+total (\d+)K, used (\d+)K", told)
    if heap is None:
        return float(process.memory_info().rss)
    committed, used = 1024 * int(heap[1]), 1024 * int(heap[2])
    beside = max(0, process.memory_info().rss - committed)
    return float(used + beside)


def _tool() -> str | None:
    java = find_java()
    tool = Path(str(java)) / "bin" / "jcmd" if java else None
    return str(tool) if tool is not None and tool.exists() else None
