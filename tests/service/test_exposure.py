"""Pages of other origins may call if a setting says so; what is for operators can be elsewhere."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from tocsin.errors import Conflict, Forbidden, SettingError
from tocsin.service.exposure import Exposure, exposure_of, inner_place
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.tokens import mint
from tocsin.service.web import Call, Route, application
from tocsin.settings import Settings, convert

SECRET = "a secret that is long enough to sign with"
PAGE = "https://app.example.org"


async def status(_: Call) -> Any:
    return {"ready": True}


async def conflict(_: Call) -> Any:
    raise Conflict("it exists already")


ROUTES = [
    Route("GET", "/v1/status", status, None, "status"),
    Route("POST", "/v1/things/{id}", conflict, (), "fail"),
    Route("DELETE", "/v1/things/{id}", conflict, (), "fail"),
]


def service(inner: bool = False, **changes: Any) -> httpx.AsyncClient:
    exposure = exposure_of(convert(changes))
    app = application(
        "test",
        ROUTES,
        verifier=TokenVerifier(secret=SECRET),
        limit_bytes=64,
        exposure=exposure,
        inner=inner,
    )
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test")


def header(*scopes: str) -> dict[str, str]:
    token = mint(SECRET, "ann", scopes, expires_s=60, now=time.time())
    return {"Authorization": f"Bearer {token}"}


def preflight(origin: str, method: str = "POST") -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": (
            "authorization,content-type,idempotency-key,last-event-id,tocsin-protocol"
        ),
    }


async def test_browsers_are_told_that_pages_of_the_origin_may_call() -> None:
    client = service(cors_origins=f"{PAGE}, http://localhost:3000")
    for origin, method in ((PAGE, "POST"), (PAGE, "DELETE"), ("http://localhost:3000", "GET")):
        answer = await client.options("/v1/things/1", headers=preflight(origin, method))
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == origin
        assert method in answer.headers["access-control-allow-methods"]
        allowed = answer.headers["access-control-allow-headers"].lower()
        for name in preflight(origin)["Access-Control-Request-Headers"].split(","):
            assert name in allowed


async def test_errors_can_be_read_by_such_pages_as_well() -> None:
    client = service(cors_origins=PAGE)
    for answer in (
        await client.post("/v1/things/1", headers={"Origin": PAGE, **header("publish")}),  # 409
        await client.post("/v1/things/1", headers={"Origin": PAGE}),  # 401
        await client.get("/v1/nothing", headers={"Origin": PAGE}),  # 404
        await client.get("/healthz", headers={"Origin": PAGE}),
    ):
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "tocsin-protocol" in answer.headers["access-control-expose-headers"].lower()
        assert answer.headers["tocsin-protocol"]


async def test_pages_of_other_origins_may_not() -> None:
    for client in (service(), service(cors_origins=PAGE)):
        answer = await client.options("/v1/things/1", headers=preflight("https://evil.example"))
        assert "access-control-allow-origin" not in answer.headers
        answer = await client.get("/healthz", headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in answer.headers


async def test_any_origin_may_where_the_setting_says_so() -> None:
    answer = await service(cors_origins="*").options("/v1/things/1", headers=preflight(PAGE))
    assert answer.headers["access-control-allow-origin"] == "*"


def test_sockets_are_opened_by_pages_of_these_origins_and_by_programs() -> None:
    Exposure().check_origin("https://evil.example")  # as ever: nothing is set
    Exposure(origins=("*",)).check_origin("https://evil.example")
    some = Exposure(origins=(PAGE,))
    some.check_origin(PAGE)
    some.check_origin(None)
    with pytest.raises(Forbidden, match=r"evil\.example"):
        some.check_origin("https://evil.example")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("cors_origins", "app.example.org"),
        ("cors_origins", "https://app.example.org/page"),
        ("public_url", "edge.example.org"),
        ("public_url", "https://edge.example.org/x?y=1"),
        ("public_ws_url", "https://edge.example.org"),
        ("inner_address", "9400"),
    ],
)
def test_what_is_no_origin_or_address_is_refused(setting: str, value: str) -> None:
    with pytest.raises(SettingError, match=f"setting {setting} must be one like") as refused:
        convert({setting: value})
    assert refused.value.field == setting


def test_the_inner_address_is_read() -> None:
    assert inner_place(Settings(inner_address="127.0.0.1:9400")) == ("127.0.0.1", 9400)
    assert inner_place(Settings(inner_address="[::1]:0")) == ("::1", 0)
    with pytest.raises(SettingError, match="65535"):
        inner_place(Settings(inner_address="127.0.0.1:99999"))


INNER = ("/metrics", "/docs", "/openapi.json", "/v1/status")


async def test_what_is_for_operators_is_at_the_inner_address_alone() -> None:
    address = "127.0.0.1:9400"
    usual, inner = service(inner_address=address), service(True, inner_address=address)
    for path in INNER:
        assert (await usual.get(path)).status_code == 404
        assert (await inner.get(path)).status_code == 200
    for client in (usual, inner):
        assert (await client.get("/healthz")).status_code == 200
    assert (await inner.post("/v1/things/1", headers=header("publish"))).status_code == 404
    assert (await usual.post("/v1/things/1", headers=header("publish"))).status_code == 409
    assert "/v1/things/{id}" in (await inner.get("/openapi.json")).json()["paths"]


async def test_what_is_for_operators_asks_for_the_scope() -> None:
    client = service(inner_scope="admin")
    for path in INNER:
        assert (await client.get(path)).status_code == 401
        assert (await client.get(path, headers=header("publish"))).status_code == 403
        assert (await client.get(path, headers=header("admin"))).status_code == 200
    assert (await client.get("/healthz")).status_code == 200
    description = (await client.get("/openapi.json", headers=header("admin"))).json()
    assert description["paths"]["/metrics"]["get"]["security"][0] == {"token": ["admin"]}


async def test_by_default_everything_is_where_it_was() -> None:
    for path in (*INNER, "/healthz"):
        assert (await service().get(path)).status_code == 200


async def test_links_of_the_description_stay_below_the_prefix_of_a_proxy() -> None:
    assert "href=openapi.json" in (await service().get("/docs")).text
    assert (await service().get("/openapi.json")).json()["servers"] == [{"url": "."}]
