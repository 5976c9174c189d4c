"""A network between the store and its server that a test can break at a chosen byte."""

from __future__ import annotations

import contextlib
import socket
import threading

from sqlalchemy.engine import make_url


class BrokenNetwork:
    """Passes bytes on in both directions until it is told otherwise."""

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._lock = threading.Lock()
        self._lines: list[_Line] = []
        self._down = False
        self._flows = threading.Event()
        self._flows.set()
        self._pattern: bytes | None = None
        self._answer_is_lost = self._stays_down = False
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def through(self, url: str) -> str:
        """The address of a store, by way of this network."""
        return make_url(url).set(port=self._port).render_as_string(hide_password=False)

    def cut_at(self, pattern: bytes, *, answer_is_lost: bool, stays_down: bool = False) -> None:
        """Once, when a client sends these bytes: before they arrive, or when they were answered
        and before the answer arrives."""
        with self._lock:
            self._pattern = pattern
            self._answer_is_lost, self._stays_down = answer_is_lost, stays_down

    def cut(self) -> None:
        """Every connection ends, and no new one can be made."""
        with self._lock:
            self._down = True
        self.let_go()

    def restore(self) -> None:
        with self._lock:
            self._down = False

    def vanish(self) -> None:
        """Clients find every connection ended. The server hears nothing of it."""
        with self._lock:
            for line in self._lines:
                line.server_hears = False
                _end(line.client)

    def stall(self) -> None:
        """Nothing arrives any more, in either direction, and nobody is told."""
        self._flows.clear()

    def flow(self) -> None:
        """What was held back arrives."""
        self._flows.set()

    def let_go(self) -> None:
        """Every connection ends, on both sides."""
        with self._lock:
            for line in self._lines:
                line.end()
            self._lines.clear()

    def close(self) -> None:
        self.cut()
        self.flow()
        _end(self._listener)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._lock:
                    if self._down:
                        client.close()
                        continue
                    try:
                        line = _Line(client, socket.create_connection(self._to))
                    except OSError:
                        client.close()
                        continue
                    self._lines.append(line)
                for direction in (self._up, self._back):
                    threading.Thread(target=direction, args=(line,), daemon=True).start()

    def _up(self, line: _Line) -> None:
        with contextlib.suppress(OSError):
            while data := line.client.recv(65536):
                self._flows.wait()
                if self._breaks_at(data):
                    if not self._answer_is_lost:
                        line.end()
                        return
                    line.answer_is_lost = True
                line.server.sendall(data)
        if line.server_hears and not line.answer_is_lost:
            line.end()

    def _back(self, line: _Line) -> None:
        with contextlib.suppress(OSError):
            while data := line.server.recv(65536):
                self._flows.wait()
                if line.answer_is_lost:
                    break
                line.client.sendall(data)
        line.end()

    def _breaks_at(self, data: bytes) -> bool:
        said = data.replace(b"READ COMMITTED", b"")  # so transactions begin; COMMIT ends them
        with self._lock:
            if self._pattern is None or self._pattern not in said:
                return False
            self._pattern = None
            self._down = self._stays_down
            self.cuts += 1
            return True


class _Line:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.answer_is_lost = False
        self.server_hears = True

    def end(self) -> None:
        _end(self.client)
        _end(self.server)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
