"""Routes check the token, the scope and the body before a handler runs, and leak no trace."""

import time
from typing import Annotated, Any

import httpx
import pytest
from msgspec import Meta, Struct

from tocsin.errors import Conflict
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.tokens import mint
from tocsin.service.web import Call, Route, application

SECRET = "a secret that is long enough to sign with"


class Count(Struct):
    n: Annotated[int, Meta(ge=1, le=9, description="how often")] = 1
    to: tuple[str, ...] = ()


class Named(Struct, forbid_unknown_fields=True):
    name: str


async def greet(call: Call) -> Any:
    asked: Named = await call.body(Named)
    return {"hello": asked.name, "by": call.identity.subject, "n": call.query(Count).n}


async def who(call: Call) -> Any:
    return {"to": call.query(Count).to}


async def conflict(_: Call) -> Any:
    raise Conflict("it exists already", field="name", hint="choose another")


async def broken(_: Call) -> Any:
    raise RuntimeError("the secret inside")


ROUTES = [
    Route("POST", "/v1/greet", greet, ("publish",), "greet", Named, query=Count),
    Route("GET", "/v1/people/{id:int}", who, None, "everyone who is greeted", query=Count),
    Route("GET", "/v1/undeclared", who, None, "read what is not declared"),
    Route("POST", "/v1/conflict", conflict, (), "fail as a user would see it"),
    Route("GET", "/v1/broken", broken, None, "fail as nobody should see it"),
]


@pytest.fixture
def client() -> httpx.AsyncClient:
    app = application("test", ROUTES, verifier=TokenVerifier(secret=SECRET), limit_bytes=64)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://test")


def header(*scopes: str, expires_s: float = 60) -> dict[str, str]:
    token = mint(SECRET, "ann", scopes, expires_s=expires_s, now=time.time())
    return {"Authorization": f"Bearer {token}"}


async def test_call_with_the_scope_reaches_its_handler(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/greet?n=3", json={"name": "bo"}, headers=header("publish"))
    assert answer.status_code == 200
    assert answer.json() == {"hello": "bo", "by": "ann", "n": 3}


async def test_call_without_token_or_scope_is_refused(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/greet", json={"name": "bo"})).status_code == 401
    answer = await client.post("/v1/greet", json={"name": "bo"}, headers=header("subscribe"))
    assert answer.status_code == 403
    assert "publish" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"{", 400, None),
        (b'{"name": 3}', 400, "name"),
        (b'{"name": "a", "other": 1}', 400, "other"),
        (b'{"name": "' + b"x" * 100 + b'"}', 413, "body"),
    ],
)
async def test_body_that_does_not_fit_is_told_by_field(
    client: httpx.AsyncClient, body: bytes, status: int, field: str | None
) -> None:
    answer = await client.post("/v1/greet", content=body, headers=header("publish"))
    assert answer.status_code == status
    assert answer.json()["error"].get("field") == field


async def test_streamed_body_over_the_limit_is_cut_off(client: httpx.AsyncClient) -> None:
    async def parts() -> Any:
        for _ in range(10):
            yield b"x" * 20

    answer = await client.post("/v1/greet", content=parts(), headers=header("publish"))
    assert answer.status_code == 413


async def test_query_parameter_of_the_wrong_type_is_named(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/greet?n=x", json={"name": "a"}, headers=header("publish"))
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == "n"


@pytest.mark.parametrize("n", ["x", "0", "10", "null", ""])
async def test_query_parameter_out_of_bounds_is_named(client: httpx.AsyncClient, n: str) -> None:
    answer = await client.get(f"/v1/people/1?n={n}")
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == "n"
    assert answer.json()["error"]["message"].startswith("query parameter n: Expected `int`")


async def test_query_parameter_may_be_given_several_times(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/people/1?to=ann&to=bo&other=1")
    assert answer.json() == {"to": ["ann", "bo"]}


async def test_query_parameter_that_no_route_declares_cannot_be_read(
    client: httpx.AsyncClient,
) -> None:
    assert (await client.get("/v1/undeclared?to=ann")).status_code == 500


async def test_health_is_told_to_whoever_asks_in_any_version(client: httpx.AsyncClient) -> None:
    answer = await client.get("/healthz", headers={"Tocsin-Protocol": "0"})
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")


async def test_errors_keep_their_status_field_and_hint(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/conflict", headers=header("admin"))
    assert answer.status_code == 409
    assert answer.json()["error"] == {
        "code": "conflict",
        "message": "it exists already",
        "field": "name",
        "hint": "choose another",
    }


async def test_internal_failure_shows_no_detail(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/broken")
    assert answer.status_code == 500
    assert "secret inside" not in answer.text


async def test_unknown_route_points_to_the_list(client: httpx.AsyncClient) -> None:
    answer = await client.get("/nowhere")
    assert answer.status_code == 404
    assert "/docs" in answer.json()["error"]["hint"]


async def test_description_names_every_route(client: httpx.AsyncClient) -> None:
    described = (await client.get("/openapi.json")).json()
    own = {"/metrics", "/healthz", "/openapi.json", "/docs"}
    declared = {route.path.replace(":int", "") for route in ROUTES}
    assert set(described["paths"]) == own | declared
    page = (await client.get("/docs")).text
    assert all(route.path in page for route in ROUTES)
    assert all(path in page for path in own)
    assert "tocsin_http_requests_total" in (await client.get("/metrics")).text


async def test_description_names_each_parameter_with_its_type_and_bounds(
    client: httpx.AsyncClient,
) -> None:
    described = (await client.get("/openapi.json")).json()
    id, n, to, *version = described["paths"]["/v1/people/{id}"]["get"]["parameters"]
    assert id == {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
    assert n == {
        "name": "n",
        "in": "query",
        "description": "how often",
        "schema": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
    }
    assert (to["name"], to["schema"]["items"]) == ("to", {"type": "string"})
    assert [list(reference) for reference in version] == [["$ref"], ["$ref"]]
    assert described["paths"]["/healthz"]["get"]["parameters"] == []
