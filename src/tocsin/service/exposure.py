"""What a service shows to whom: pages of other origins, and what is for operators alone.

`/metrics`, `/docs`, `/openapi.json` and `/v1/status` can be served at another address, or ask for a
scope; `/healthz` is everywhere and open, because load balancers call it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from tocsin.errors import Forbidden, SettingError
from tocsin.protocol.version import HEADER
from tocsin.settings import Settings

if TYPE_CHECKING:
    from tocsin.service.web import Route

INNER = ("/metrics", "/docs", "/openapi.json", "/v1/status")
"""For operators."""
EVERYWHERE = "/healthz"
ANY = "*"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
SENT = (
    *(
        "Authorization",
        "Content-Type",
        "Idempotency-Key",
        "Last-Event-ID",
        "Range",
        "If-None-Match",
    ),
    HEADER,
)
"""Headers of calls that a page of another origin may set."""
READ = (HEADER, "Retry-After", "Content-Range", "Accept-Ranges", "Content-Length", "ETag")
"""Headers of answers that it may read."""


class Exposure(Struct, frozen=True, kw_only=True):
    """`origins`: of pages that may call. `elsewhere`: what is for operators has an address of its
    own. `scope`: what their tokens must have; empty: they need none."""

    origins: tuple[str, ...] = ()
    elsewhere: bool = False
    scope: str = ""

    def scoped(self, routes: Sequence[Route]) -> list[Route]:
        if not self.scope:
            return list(routes)
        return [
            replace(route, scopes=(self.scope,)) if route.path in INNER else route
            for route in routes
        ]

    def chosen(self, routes: Sequence[Route], *, inner: bool) -> list[Route]:
        """Those that are served at the usual address, or at the inner one."""
        if inner:
            return [route for route in routes if route.path in (*INNER, EVERYWHERE)]
        return [route for route in routes if not (self.elsewhere and route.path in INNER)]

    def middleware(self) -> list[Middleware]:
        """Answers the questions that browsers ask before a page calls, and marks every answer."""
        if not self.origins:
            return []
        options: dict[str, Any] = {
            "allow_origins": self.origins,
            "allow_methods": METHODS,
            "allow_headers": SENT,
            "expose_headers": READ,
        }
        return [Middleware(CORSMiddleware, **options)]

    def check_origin(self, origin: str | None) -> None:
        """Browsers let any page open a WebSocket, and say in a header which one it is."""
        if origin is not None and self.origins and not {ANY, origin} & set(self.origins):
            raise Forbidden(
                f"pages of {origin} may not connect",
                field="Origin",
                hint="the setting cors_origins lists who may",
            )


EVERYTHING_HERE = Exposure()


def exposure_of(settings: Settings) -> Exposure:
    origins = tuple(filter(None, (part.strip() for part in settings.cors_origins.split(","))))
    scope = "" if settings.inner_scope == "none" else settings.inner_scope
    return Exposure(origins=origins, elsewhere=bool(settings.inner_address), scope=scope)


def inner_place(settings: Settings) -> tuple[str, int]:
    """Where the inner address is: host and port."""
    host, _, port = settings.inner_address.rpartition(":")
    if int(port) > 65535:
        raise SettingError(
            f"setting inner_address: {port} is no port, which go up to 65535", field="inner_address"
        )
    return host.strip("[]"), int(port)
