"""A gateway's own calls to the cluster that leads: what it hands on, and datasets that it reads.

Each is made under the gateway's credential, which lets it do these two things and no others; what a
publisher may do is decided by the publisher's token, which goes along.
"""

from __future__ import annotations

import asyncio
import time
from random import Random
from urllib.parse import quote

import httpx
import msgspec

from tocsin.backoff import Backoff
from tocsin.client.addresses import PASSING, TAKEOVER_PAUSE_S, TAKEOVER_S, leads_nowhere, serves
from tocsin.client.cluster_http import ClusterHttp
from tocsin.client.http import NOT_SENT, error_of
from tocsin.errors import NotFound, Unavailable
from tocsin.gateway.relay import Lost, NotTaken
from tocsin.model import Dataset
from tocsin.protocol.appends import MESSAGE_PACK, AppendOutcomes, Appends
from tocsin.service.keys.credentials import Credential

APPEND_S = 60.0  # a slow disk or a slow Kafka may take so long
ASK_S = 10.0

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AppendOutcomes)


class Leader:
    def __init__(self, url: str, credential: Credential, name: str, authority: str = "") -> None:
        """`url`: of the cluster, or several, of which one leads."""
        named = url, f"gateway {name}", authority, ASK_S
        self._http = ClusterHttp(*named)
        self._asking = ClusterHttp(*named)  # questions never wait before what is handed on
        self._credential = credential
        self.refused: str | None = None  # why the cluster does not take our token

    async def close(self) -> None:
        await self._http.client.aclose()
        await self._asking.client.aclose()

    @property
    def url(self) -> str:
        return self._http.addresses.current

    @property
    def several(self) -> bool:
        return self._http.addresses.several

    async def serves(self) -> bool:
        """Whether somebody leads."""
        address = await self._asking.addresses.serving(self._asking.client)
        return address is not None and await serves(self._asking.client, address)

    async def append(self, appends: Appends) -> AppendOutcomes:
        """Hand them on, once. Raises NotTaken or Lost if there is no answer of one who leads."""
        body = _encoder.encode(appends)
        headers = self._headers() | {"content-type": MESSAGE_PACK}
        try:
            answer = await self._http.ask(
                lambda at: self._http.client.post(
                    f"{at}/v1/appends", content=body, headers=headers, timeout=APPEND_S
                ),
                repeatable=False,
            )
        except Unavailable as error:
            sent = not isinstance(error.__cause__, NOT_SENT)
            raise (Lost if sent else NotTaken)(error) from error
        if answer.is_success:
            self.refused = None
            try:
                return _decoder.decode(answer.content)
            except msgspec.DecodeError as error:
                raise Lost(
                    Unavailable(f"the cluster's answer was not understood: {error}")
                ) from None
        failure = error_of(answer)
        if leads_nowhere(answer) or (type(failure) is Unavailable and _own(answer)):
            raise NotTaken(failure)
        if answer.status_code in PASSING or answer.status_code >= 500:
            raise Lost(failure)
        self.refused = failure.message
        raise failure

    async def dataset(self, name: str) -> Dataset:
        """As the catalog has it now. While nobody leads it is waited for."""
        backoff = Backoff(Random(), first_s=0.05, most_s=TAKEOVER_PAUSE_S)
        until = time.monotonic() + TAKEOVER_S
        while True:
            try:
                return await self._dataset(name)
            except Unavailable:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(backoff.next_s())

    async def _dataset(self, name: str) -> Dataset:
        path = f"/v1/datasets/{quote(name, safe='')}"
        headers = self._headers()
        asking = self._asking
        answer = await asking.ask(lambda at: asking.client.get(at + path, headers=headers))
        if answer.is_success:
            self.refused = None
            try:
                return msgspec.json.decode(answer.content, type=Dataset)
            except msgspec.DecodeError as error:
                raise Unavailable(f"the cluster's answer was not understood: {error}") from None
        failure = error_of(answer)
        if isinstance(failure, NotFound | Unavailable):
            raise failure
        self.refused = failure.message
        raise Unavailable(f"the cluster refuses this gateway: {failure.message}")

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._credential.token()}"}


def _own(answer: httpx.Response) -> bool:
    """Whether a service of ours said so, and not what stands before it."""
    return b'"code"' in answer.content
