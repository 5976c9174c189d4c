"""What writers of matches have stored is told on to brokers and deliveries."""

from __future__ import annotations

from tocsin.cluster.cluster import Cluster
from tocsin.errors import InvalidInput
from tocsin.protocol.commits import Commits, StoredResults
from tocsin.protocol.health import Done
from tocsin.service.web import Call, Route
from tocsin.storage.store.matches import RUN
from tocsin.storage.store.runs import Committed


class CommitCalls:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def routes(self) -> list[Route]:
        telling = "tell what was stored beside the cluster: brokers and deliveries hear of it"
        return [
            Route(
                "POST",
                "/v1/commits",
                self.commits,
                ("writer",),
                telling,
                Commits,
                Done,
                limit_bytes=None,
            )
        ]

    async def commits(self, call: Call) -> Done:
        body: Commits = await call.body(Commits)
        for committed in [_committed(stored) for stored in body.commits]:
            await self._cluster.results_stored(committed)
        return Done()


def _committed(stored: StoredResults) -> Committed:
    """Refused if its columns do not fit each other."""
    lengths = {len(stored.backends), len(stored.positions), len(stored.values)}
    if len(lengths) > 1 or not {head.backend for head in stored.heads}.issuperset(stored.backends):
        raise InvalidInput(
            "the columns of a commit do not fit each other, or its heads",
            field="commits",
            hint="each result has a backend, a position and a value, and its backend a head",
        )
    return Committed(
        channel=stored.channel,
        run=RUN,
        sequence=stored.sequence,
        heads=stored.heads,
        backends=stored.backends,
        positions=stored.positions,
        payloads=[bytes(value) for value in stored.values],
        at=stored.at,
    )
