"""WebSocket fan-out: messages that one second of a server's CPU brings to its clients.

The broker's own socket layer against Tornado (the BAD prototype's server), each in a process of
its own, on the loop that suits it better, with the same clients and the same frames. CPU time of
the server is what counts, so that the clients' work on the same machine does not.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from bench.control import Helper
from bench.findings import Finding
from tocsin.service.tokens import mint

SERVERS = ("tocsin", "tornado", "tornado-uvloop")
MESSAGE_BYTES = 400
BURSTS = (1, 16)  # messages for each client in one turn of the server's loop


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    clients = 100 if quick else 400
    rounds = 20 if quick else 60
    figures: dict[tuple[str, int], float] = {}
    for server in SERVERS:
        say(f"{server}, {clients} clients")
        for burst, figure in _measure(server, clients, rounds).items():
            figures[server, burst] = figure
    findings = []
    for burst in BURSTS:
        best = max(SERVERS[1:], key=lambda name: figures[name, burst])
        what = "one message" if burst == 1 else f"{burst} messages"
        findings.append(
            Finding(
                claim=f"fan-out per core, {what} at a time",
                unit="/cpu-s",
                ours=figures["tocsin", burst],
                baseline=figures[best, burst],
                baseline_is=f"Tornado ({'uvloop' if 'uvloop' in best else 'asyncio'})",
                details={
                    "clients": clients,
                    "message_bytes": MESSAGE_BYTES,
                    "rounds": rounds,
                    **{name: figures[name, burst] for name in SERVERS},
                },
            )
        )
    return findings


def _measure(server: str, clients: int, rounds: int) -> dict[int, float]:
    """Messages per second of the server's CPU, for each size of burst."""
    secret = secrets.token_hex(32)
    token = mint(secret, "bench", ["subscribe"], expires_s=3600, now=time.time())
    serving = Helper("bench.fanout_server", server, secret)
    try:
        url = serving.hear()["url"]
        listening = Helper("bench.fanout_clients", f"{url}?token={token}", str(clients))
        try:
            listening.hear()
            for burst in BURSTS:  # once unmeasured: everything is imported, every buffer grown
                _rounds(serving, listening, clients, burst, 3)
            return {
                burst: clients
                * burst
                * rounds
                / _rounds(serving, listening, clients, burst, rounds)
                for burst in BURSTS
            }
        finally:
            listening.stop()
    finally:
        serving.stop()


def _rounds(serving: Helper, listening: Helper, clients: int, burst: int, rounds: int) -> float:
    """The CPU seconds that the server needed for these rounds."""
    serving.tell(op="cpu")
    before: float = serving.hear()["cpu_s"]
    for _ in range(rounds):
        listening.tell(expect=clients * burst)
        serving.tell(op="send", count=burst, size_bytes=MESSAGE_BYTES)
        listening.hear()  # all have everything: no server gains by leaving messages unsent
    serving.tell(op="cpu")
    after: float = serving.hear()["cpu_s"]
    return after - before
