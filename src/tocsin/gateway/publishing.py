"""What a gateway does with a publication: read, checked and encoded here, taken by the cluster."""

from __future__ import annotations

import secrets
from functools import partial

from msgspec import UNSET
from starlette.responses import Response

from tocsin.errors import NotFound, TocsinError, Unavailable
from tocsin.gateway.catalog import Catalog
from tocsin.gateway.passing import Passing
from tocsin.gateway.relay import Checked, Relay
from tocsin.intake.body_limits import Limits
from tocsin.intake.formats import Format, format_of_content_type, read
from tocsin.intake.keys import request_key
from tocsin.intake.large_bodies import SMALL_BYTES, LargeBodies, is_small
from tocsin.intake.sorting import MOST_LETTERS, Elsewhere, Sorted, Sorter
from tocsin.model import Dataset, attachments_of
from tocsin.protocol.appends import Append, EncodedRecord
from tocsin.service.multipart import is_form
from tocsin.service.web import Call, json_response
from tocsin.settings import Settings

MOST_CHECKS = 4  # of one request, whose dataset is made anew each time

_NOTHING = Sorted([], 0, [], [])


class Publishing:
    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        relay: Relay,
        passing: Passing,
        large: LargeBodies,
        *,
        keys: bool,
    ) -> None:
        """`keys`: a request without one gets one of ours, so that it can be handed on again to
        another cluster that leads meanwhile."""
        self._catalog = catalog
        self._relay = relay
        self._passing = passing
        self._large = large
        self._keys = keys
        self._sorter = Sorter(settings.record_limit_bytes)
        self._limits = Limits(
            settings.request_records, settings.record_limit_bytes, settings.body_limit_bytes
        )
        self._most_encoded = settings.body_limit_bytes * 3 // 4  # the cluster takes no more at once

    async def records(self, call: Call) -> Response:
        name = call.path["name"]
        if is_form(call.request.headers.get("content-type")):
            return await self._passing.pass_on(call)
        dataset = await self._catalog.dataset(name)
        if attachments_of(dataset):  # whether they are there is known to the cluster alone
            return await self._passing.pass_on(call)
        publisher = call.identity.subject
        with self._large.taking(publisher) as taking:
            body = await call.bytes(taking.more)
            for _ in range(MOST_CHECKS):
                answer = await self._publish(call, dataset, body)
                if answer is not None:
                    return answer
                self._catalog.forget(dataset)
                dataset = await self._catalog.dataset(name)
        raise Unavailable(f"dataset {name} is made anew again and again")

    async def _publish(self, call: Call, dataset: Dataset, body: bytes) -> Response | None:
        """None: the dataset is another by now."""
        try:
            records, key = await self._checked(call, dataset, body)
        except TocsinError as wrong:
            # Whether they may publish at all comes first: what they may not know of is not there.
            asking = _request(call, dataset, _NOTHING, None, len(body))
            if await self._taken(dataset, asking) is None:
                return None
            raise wrong
        checked = _request(call, dataset, records, key, len(body))
        if checked.size_bytes > self._most_encoded:
            return await self._passing.pass_on(call, body)
        end = await self._taken(dataset, checked)
        if end is None:
            return None
        published = records.published(end)
        nothing_fits = published.rejected and not published.accepted
        return json_response(published, 422 if nothing_fits else 200)

    async def _checked(
        self, call: Call, dataset: Dataset, body: bytes
    ) -> tuple[Sorted, str | None]:
        publisher = call.identity.subject
        kind = format_of_content_type(call.request.headers.get("content-type"))
        elsewhere: Elsewhere | None = None
        if kind == "parquet" or not is_small(body):
            elsewhere = partial(self._large.run, publisher)
        raw = read(body, kind, self._limits)
        sort = partial(self._sorter.sort, most_letters=MOST_LETTERS)
        work = partial(sort, dataset, raw, publisher, "http")
        records = work() if elsewhere is None else await elsewhere(work)
        return records, await self._key(call, kind, body, elsewhere)

    async def _key(
        self, call: Call, kind: Format, body: bytes, elsewhere: Elsewhere | None
    ) -> str | None:
        given = call.request.headers.get("idempotency-key")
        if given is None:
            return secrets.token_hex(16) if self._keys else None
        work = partial(request_key, given, call.identity.subject, kind, body)
        return work() if elsewhere is None else await elsewhere(work)

    async def _taken(self, dataset: Dataset, checked: Checked) -> int | None:
        """The dataset's end behind them; None: it is another by now."""
        try:
            outcome = await self._relay.append(checked)
        except NotFound:
            self._catalog.forget(dataset)
            raise
        return None if outcome.stale else outcome.end


def _request(
    call: Call, dataset: Dataset, records: Sorted, key: str | None, size_bytes: int
) -> Checked:
    append = Append(
        dataset.name,
        dataset.created_at,
        0,
        [EncodedRecord(*record) for record in records.good],
        [letter for letter, _ in records.letters],
        records.refused,
        size_bytes,
        UNSET if key is None else key,
    )
    held_bytes = size_bytes if size_bytes <= SMALL_BYTES else 0  # larger ones are counted already
    return Checked(
        append=append,
        token=call.token or "",
        subject=call.identity.subject,
        held_bytes=held_bytes,
    )
