"""A thread that works until it is stopped, and begins again when the work fails."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

RETRY_S = 1.0


class Worker(ABC):
    """One thread. Kafka or the store may be away for a while: no error ends it."""

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def _work(self) -> None:
        """Until `_stopping` is set. May raise anything."""

    @abstractmethod
    def _report(self, error: Exception) -> None:
        """Why the work ended; it begins again after a pause."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the thread has ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._work()
            except Exception as error:
                self._report(error)
                self._stopping.wait(RETRY_S)
