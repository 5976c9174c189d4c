"""Every route of every service declares what it answers, in OpenAPI, from the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.world import World
from cluster.sparkless import sparkless

STATUSES_WITHOUT_BODY = {"304"}
OWN = {"/metrics", "/healthz", "/openapi.json", "/docs"}
"""Answered by every service, to whoever asks."""

_LED_BY = {"subscription", "position", "type"}
PARAMETERS = {
    "broker": {
        "/v1/subscriptions/{id}/results": {"after", "epoch", "limit", "wait_s"},
        "/v1/events": {"inline"},
        "/v1/attachments/{id}": _LED_BY,
        "/attachments/{id}": _LED_BY,
    },
    "coordinator": {"/v1/broker": {"exclude"}},
    "cluster": {
        "/v1/brokers/{name}/news": {"since"},
        "/v1/brokers/{name}/subscriptions": {"after", "limit"},
        "/v1/subscriptions": {"subscriber"},
        "/v1/subscriptions/{number}": {"subscriber"},
        "/v1/datasets/{name}/log": {"after", "upto", "limit"},
        "/v1/datasets/{name}/filter": {"where"},
        "/v1/attachments/{id}": _LED_BY,
        "/v1/attachments/{id}/access": _LED_BY,
    },
}
"""What each service reads from a query, by path."""


async def described(url: str) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=url) as http:
        document: dict[str, Any] = (await http.get("/openapi.json")).json()
        return document


def check(document: dict[str, Any]) -> None:
    operations = [
        (f"{method} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    assert document["paths"].keys() > OWN
    assert document["paths"]["/healthz"]["get"]["responses"].keys() == {"200", "503"}
    for name, operation in operations:
        responses = operation["responses"]
        done = [status for status in responses if status < "400"]
        assert done, name
        for status, response in responses.items():
            assert status in STATUSES_WITHOUT_BODY or response.get("content"), (name, status)
        if name.split()[1] not in OWN:
            assert {"400", "426", "500", "503"} <= responses.keys(), name
        if "security" in operation:
            assert {"401", "403"} <= responses.keys(), name
        if "requestBody" in operation:
            assert operation["requestBody"]["content"], name
            assert "413" in responses, name
    check_references(document, document)


def check_references(part: Any, document: dict[str, Any]) -> None:
    if isinstance(part, dict):
        reference = part.get("$ref")
        if isinstance(reference, str):
            place: Any = document
            for name in reference.removeprefix("#/").split("/"):
                place = place[name]
        for inner in part.values():
            check_references(inner, document)
    elif isinstance(part, list):
        for inner in part:
            check_references(inner, document)


def parameters(document: dict[str, Any]) -> dict[str, set[str]]:
    """The query parameters of each path that has any, over all methods."""
    names: dict[str, set[str]] = {}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                if parameter.get("in") == "query":
                    assert parameter["schema"], (path, parameter)
                    assert parameter["description"], (path, parameter)
                    names.setdefault(path, set()).add(parameter["name"])
    return names


@pytest.mark.parametrize("service", ["broker", "coordinator"])
async def test_every_route_declares_its_answers(world: World, service: str) -> None:
    broker = await world.broker()
    document = await described(broker.url if service == "broker" else world.coordinator_url)
    check(document)
    assert parameters(document) == PARAMETERS[service]


async def test_every_route_of_the_cluster_declares_its_answers(tmp_path: Path) -> None:
    async with sparkless(tmp_path) as cluster:
        document = await described(cluster.url)
        check(document)
        assert parameters(document) == PARAMETERS["cluster"]
