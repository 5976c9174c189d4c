"""Lines of JSON on standard input and output, by which a benchmark leads its helper processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any


class Helper:
    """A helper process that is told things line by line and answers with lines of JSON. It ends
    when its standard input does, and so with us."""

    def __init__(self, module: str, *arguments: str, log: Path | None = None) -> None:
        """`log`: a file for what it complains of; otherwise we show it."""
        words = [sys.executable, "-m", module, *arguments]
        self._log = log
        with ExitStack() as stack:
            errors = None if log is None else stack.enter_context(log.open("ab"))
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, **told: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            last = "" if self._log is None else self._log.read_text()[-2000:]
            raise RuntimeError(f"{self._process.args!r} ended early {last}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def ask(self, **told: Any) -> dict[str, Any]:
        """Tell and hear; the event loop goes on meanwhile."""
        self.tell(**told)
        return await asyncio.to_thread(self.hear)

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


async def orders() -> AsyncIterator[dict[str, Any]]:
    """Each line that the benchmark writes, until it closes the pipe."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield json.loads(line)


def answer(**told: Any) -> None:
    print(json.dumps(told), flush=True)
