"""How calls of services reach the cluster that leads: one address after the other."""

from __future__ import annotations

from random import Random
from typing import Any

import httpx

from tocsin.client.addresses import Addresses, Send, leads_nowhere
from tocsin.client.http import NOT_SENT
from tocsin.client.transport import HttpClient, distrust
from tocsin.errors import Unavailable


class ClusterHttp:
    def __init__(
        self,
        url: str,
        speaker: str,
        authority: str,
        timeout_s: float | httpx.Timeout,
        *,
        field: str = "cluster_url",
        spread: Random | None = None,
        **options: Any,
    ) -> None:
        """`url`: of the cluster, or of several, of which one leads; or of gateways, among which
        callers `spread`."""
        self.addresses = Addresses(url, field, spread)
        self.client: httpx.AsyncClient = HttpClient(
            speaker=speaker, authority=authority, timeout=timeout_s, **options
        )
        self.distrusted: str | None = None  # why the cluster is not trusted

    async def ask(
        self, send: Send, *, repeatable: bool = True, streamed: bool = False
    ) -> httpx.Response:
        """The answer of the cluster that leads; of a standby, if none was found. What is not
        `repeatable` is made again only where it was certainly not taken, and what is `streamed`
        never. Raises Unavailable for a call without an answer, with the reason as its cause."""
        lost: Unavailable | None = None
        nowhere: httpx.Response | None = None
        in_doubt = False
        for _ in range(1 if streamed else len(self.addresses.all)):
            address = self.addresses.current
            try:
                answer = await self.addresses.ask(self.client, send)
            except httpx.HTTPError as error:
                sent = not isinstance(error, NOT_SENT)
                if sent or not in_doubt:
                    lost = self.silent(address, error)
                in_doubt = in_doubt or sent
                if sent and not repeatable:
                    break
            else:
                if not leads_nowhere(answer):
                    return answer
                nowhere = answer
        if nowhere is not None and not in_doubt:
            return nowhere
        assert lost is not None
        raise lost

    def left(self, address: str, error: httpx.HTTPError) -> Unavailable:
        """A stream from there broke."""
        self.addresses.leave(address)
        return self.silent(address, error)

    def silent(self, address: str, error: httpx.HTTPError) -> Unavailable:
        self.distrusted = distrust(error)
        reason = self.distrusted or str(error) or type(error).__name__
        failure = Unavailable(f"no answer from the cluster at {address}: {reason}")
        failure.__cause__ = error
        return failure
