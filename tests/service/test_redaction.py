"""No log line holds a token: not ours, not of a library, not when something fails with one."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import httpx
import pytest
import structlog

from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.logs import configure_logs
from tocsin.service.redaction import redacted
from tocsin.service.serving import listen, port_of, serving
from tocsin.service.tokens import mint
from tocsin.service.web import Call, Route, application

SECRET = "a secret that is long enough to sign with"


@pytest.mark.parametrize(
    "line",
    [
        "GET /v1/events?token={token} HTTP/1.1",
        "GET /v1/events?inline=1&token={token}&after=3",
        'a header "Authorization: Bearer {token}" was sent',
        "httpx.ConnectError: http://h/v1/ws?token={token}",
        "{token}",
        "{token},{token} {{'token': '{token}'}}",
    ],
)
@pytest.mark.parametrize("made", [True, False])
def test_a_line_keeps_all_but_its_tokens(line: str, made: bool) -> None:
    token = mint(SECRET, "ann", ["admin"], expires_s=60, now=time.time())
    if not made:
        token = "opaque-0123456789"
        if "token=" not in line and "Bearer" not in line:
            return
    shown = redacted(line.format(token=token))
    assert not any(part in shown for part in token.split("."))
    assert shown.startswith(line.split("{")[0])


def test_what_is_no_token_stays() -> None:
    for line in ("tokens=3 of eight", "bearers of news", "token_keys=/etc/jwks.json", "eyjafjalla"):
        assert redacted(line) == line


async def fail(call: Call) -> Any:
    raise RuntimeError(f"cannot reach {call.request.url}")


async def break_off(scope: Any, receive: Any, send: Any) -> None:
    raise RuntimeError(f"cannot serve {scope['query_string']!r} {scope['headers']!r}")


@pytest.mark.parametrize("style", ["json", "console"])
async def test_no_line_of_a_service_holds_a_planted_token(
    style: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that fail in our code and in uvicorn's, what is no HTTP, and libraries' own lines."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # those of the tests
    configure_logs("debug", style)
    routes = [
        Route("GET", "/v1/open", fail, None, "fail"),
        Route("GET", "/v1/closed", fail, (), "fail", token_in_query=True),
        Route("GET", "/v1/header", fail, (), "fail"),
    ]
    app = application("test", routes, verifier=TokenVerifier(secret=SECRET), limit_bytes=64)
    app.mount("/broken", break_off)
    planted = mint(SECRET, "ann", ["admin"], expires_s=600, now=time.time())
    spoilt = planted[:-4] + "AAAA"
    listener = listen("127.0.0.1", 0)
    port = port_of(listener)
    async with (
        serving(app, listener),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http,
    ):
        for token in (planted, spoilt, "opaque-0123456789"):
            for path in ("/v1/open", "/v1/closed", "/v1/header", "/broken/x", "/nowhere"):
                await http.get(f"{path}?token={token}")
                await http.get(path, headers={"Authorization": f"Bearer {token}"})
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET /v1/open?token={token} NONSENSE\r\n\r\n".encode())
            await writer.drain()
            await reader.read()
            writer.close()
    logging.getLogger("uvicorn.error").error("cannot parse /v1/open?token=%s", planted)
    logging.getLogger("some.client").warning("cannot fetch http://h/?token=%s", spoilt)
    structlog.get_logger().warning("odd", query={"token": planted}, url=f"/x?token={planted}")
    told = capfd.readouterr()
    lines = told.err + told.out
    assert lines.count("a call failed") >= 3
    assert "cannot serve" in lines  # uvicorn's own
    assert "cannot fetch" in lines
    for token in (planted, spoilt):
        assert not any(part in lines for part in token.split("."))
    assert "opaque" not in lines
