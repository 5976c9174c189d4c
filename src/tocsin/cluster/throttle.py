"""Each subject is held to the quotas of its roles: how large they are, and who publishes too fast.

Admins and brokers are not, when they speak for themselves. What a subject sends through a broker
comes with its own token, and is charged to the subject.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import TypeVar

from tocsin.cluster.permissions import credentials_of
from tocsin.cluster.rates import SECOND, Rates, Refused, cost
from tocsin.errors import InvalidInput, QuotaExceeded
from tocsin.model import QuotaName
from tocsin.service.quotas import refusal
from tocsin.service.tokens import Identity
from tocsin.storage.store.quotas import Quotas

T = TypeVar("T")

ANY_NUMBER = 10**12  # of records, before they are read
_FREE = frozenset({"admin", "broker"})


class Throttle:
    """Safe to call from any thread. `clock` counts nanoseconds."""

    def __init__(self, quotas: Quotas, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._quotas = quotas
        self._clock = clock
        self._rates = Rates()
        self._lock = Lock()

    def size(self, name: QuotaName, identity: Identity | None) -> int | None:
        """The most that they may have of it; None: there is no bound. Nobody in particular is held
        to what everybody is."""
        sizes = self._quotas.sizes
        if not sizes.by_role or (identity is not None and identity.scopes & _FREE):
            return None
        credentials = credentials_of(identity)
        return sizes.of(name, () if credentials is None else credentials.roles)

    def require(self, identity: Identity, size_bytes: int) -> None:
        """Raise unless a publication of so many bytes could be taken now. Takes nothing: how many
        records there are is known when they have been read. Whoever comes again when they are told
        to finds room for any number."""
        if self._refused(self._rates.refused, identity, 1, size_bytes) is not None:
            _refuse(self._refused(self._rates.refused, identity, ANY_NUMBER, size_bytes))

    def take(self, identity: Identity, publications: int, size_bytes: int) -> None:
        """Raise unless there is room for all of it."""
        _refuse(self._refused(self._rates.take, identity, publications, size_bytes))

    def upload(self, identity: Identity, publications: int, size_bytes: int | None) -> None:
        """The same for what is stored as it comes, so that it must say first how much it is."""
        if size_bytes is None and self.size("bytes", identity) is not None:
            raise InvalidInput(
                "there is a quota of bytes, and this call does not say how many it sends",
                field="Content-Length",
                hint="send the header Content-Length",
            )
        self.take(identity, publications, size_bytes or 0)

    def counted(self, identity: Identity, records: Iterable[T], size_bytes: int) -> Iterator[T]:
        """The records; behind the last one it raises unless there is room for them all."""
        count = 0
        for record in records:
            count += 1
            yield record
        self.take(identity, count, size_bytes)

    def _refused(
        self,
        ask: Callable[[str, dict[QuotaName, int], int], Refused | None],
        identity: Identity,
        publications: int,
        size_bytes: int,
    ) -> QuotaExceeded | None:
        amounts: dict[QuotaName, int] = {"publications": publications, "bytes": size_bytes}
        sizes = {name: self.size(name, identity) for name in amounts}
        costs = {
            name: cost(amounts[name], size)
            for name, size in sizes.items()
            if size is not None and amounts[name]
        }
        if not costs:
            return None
        with self._lock:
            refused = ask(identity.subject, costs, self._clock())
        return None if refused is None else _exceeded(identity, refused, sizes[refused.name])


def _exceeded(identity: Identity, refused: Refused, size: int | None) -> QuotaExceeded:
    wait_s = -(-refused.wait // SECOND)
    return QuotaExceeded(
        f"{identity.subject} may publish {size} {refused.name} a second, and has used them up",
        retry_after_s=wait_s,
        field=refused.name,
        hint=f"come again in {wait_s} s, or have an admin say:"
        f" SET QUOTA {refused.name} = … PER SECOND FOR ROLE …",
    )


def _refuse(error: QuotaExceeded | None) -> None:
    if error is not None:
        raise refusal(error)
