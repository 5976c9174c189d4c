"""Free ports that stay free while a process is down."""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"
# Below the ports that Linux gives to outgoing connections: one of those could otherwise take a
# server's port while it is restarted, even a client that knocks at that very port.
LOWEST, HIGHEST = 20_000, 32_000


def free_port(host: str = HOST) -> int:
    while True:
        port = random.randrange(LOWEST, HIGHEST)
        if is_free(port, host):
            return port


def is_free(port: int, host: str = HOST) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
