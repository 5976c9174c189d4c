"""The broker's routes of attachments and of its page cache."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial

from msgspec import UNSET
from msgspec.structs import asdict
from starlette.responses import Response

from tocsin.broker.server.pages.page_bytes import PageBytes
from tocsin.broker.server.pages.readers import Ask, Readers
from tocsin.errors import InvalidInput, NotFound
from tocsin.model import check_attachment_id
from tocsin.protocol.broker import PagesChange, PagesInfo
from tocsin.protocol.queries import LedByQuery
from tocsin.service.content import ANY_BYTES, begin_of, content_response, names_tag
from tocsin.service.web import Call, Route


class PageCalls:
    def __init__(
        self,
        pages: PageBytes,
        ask: Ask,
        owner: Callable[[int], str | None],
        stall_s: float,
        stalled: Callable[[bool], None],
    ) -> None:
        self._pages = pages
        self._readers = Readers(ask)
        self._owner = owner  # of a subscription that is served here
        self._stall_s = stall_s
        self._stalled = stalled  # told of every reader whether it was one

    async def attachment(self, call: Call) -> Response:
        id = check_attachment_id(call.path["id"])
        notification = self._led_by_result(call)
        led_by, token = call.query(LedByQuery), call.token or ""
        await self._readers.check(call.identity, token, id, led_by, notification)
        known = names_tag(call.request.headers.get("if-none-match"), f'"{id}"')
        if known or call.request.method == "HEAD":  # no bytes are asked for
            size_bytes = await self._pages.size_bytes(id)
            return content_response(call.request, id, size_bytes, _nothing, self._stall_s)
        wanted = call.request.headers.get("range")
        reading = await self._pages.open(id, notification, partial(begin_of, wanted))

        def gone(stalled: bool) -> None:
            reading.done()
            self._stalled(stalled)

        try:
            return content_response(
                call.request, id, reading.size_bytes, reading.pieces, self._stall_s, gone
            )
        except BaseException:
            reading.done()
            raise

    def _led_by_result(self, call: Call) -> bool:
        """Is it an access that a notification led to? A subscription that just moved elsewhere
        tells no more than browsing does; another subscriber's may not be told at all."""
        query = call.query(LedByQuery)
        subscription = query.subscription
        if (subscription is UNSET) != (query.position is UNSET):
            raise InvalidInput(
                "subscription and position go together",
                field="position",
                hint="both of the result that led here, or none",
            )
        owner = None if subscription is UNSET else self._owner(subscription)
        if owner not in (None, call.identity.subject):
            raise NotFound(f"you have no subscription {subscription}", field="subscription")
        return owner is not None

    async def show(self, _: Call) -> PagesInfo:
        pages, cache = self._pages, self._pages.pages.cache
        return PagesInfo(
            policy=cache.policy.text,
            capacity_bytes=cache.capacity_bytes,
            size_bytes=cache.size_bytes,
            pages=len(cache),
            filling=pages.pages.filling,
            hit_ratio=cache.counters.hit_ratio,
            byte_hit_ratio=cache.counters.byte_hit_ratio,
            served_bytes=pages.served_bytes,
            fetched_bytes=pages.fetched_bytes,
            saved_bytes=pages.saved_bytes,
            counters=asdict(cache.counters),
        )

    async def change(self, call: Call) -> PagesInfo:
        change: PagesChange = await call.body(PagesChange)
        self._pages.set_policy(change.policy, change.capacity_bytes)
        return await self.show(call)


def _nothing(start: int, stop: int) -> AsyncIterator[bytes]:
    raise AssertionError("a HEAD has no body")


def page_routes(calls: PageCalls) -> list[Route]:
    about = "An attachment's bytes; subscription and position of the result that led to it"
    return [
        *(
            Route(
                "GET",
                path,
                calls.attachment,
                ("subscribe",),
                about,
                answers=ANY_BYTES,
                also={206: ANY_BYTES, 304: None},
                query=LedByQuery,
                token_in_query=True,
            )
            for path in ("/v1/attachments/{id}", "/attachments/{id}")
        ),
        Route("GET", "/v1/pages", calls.show, (), "The page cache", None, PagesInfo),
        Route(
            "PUT",
            "/v1/pages",
            calls.change,
            ("admin",),
            "Change the page cache's policy or capacity",
            PagesChange,
            PagesInfo,
        ),
    ]
