"""Whatever comes to a route of whatever service, it answers what its description says: never an
error of the service's own, never nothing at all."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import schemathesis
import schemathesis.checks
from hypothesis import HealthCheck, Phase, given, settings

from fuzz.services import Addresses, running, token
from tocsin.protocol.failure import read_error

warnings.filterwarnings("ignore", module="schemathesis")

EXAMPLES = 12
ANSWER_LIMIT_S = 10.0
ENDLESS = {"/v1/events", "/v1/routed", "/v1/trace"}
"""Their answers have no end."""
NOT_CHECKED = {"/v1/overlay"}
"""Their answers hold pairs, whose schema the tool takes for an invalid one."""
CHECKS = [
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
]
SCHEMA = schemathesis.checks.response_schema_conformance
SERVICES = ("cluster", "coordinator", "broker", "gateway")


@schemathesis.serializer("application/x-ndjson")
def lines(_: Any, value: Any) -> bytes:
    return json.dumps(value).encode()


@schemathesis.serializer("application/msgpack")
def message_pack(_: Any, value: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except OverflowError:  # a number that this format has not
        return json.dumps(value).encode()


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    with running(tmp_path_factory.mktemp("fuzz")) as addresses:
        yield addresses


@pytest.mark.parametrize("service", SERVICES)
def test_every_answer_is_one_that_the_description_names(services: Addresses, service: str) -> None:
    url = services.of(service)
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    described: list[Any] = list(schema.get_all_operations())
    operations = [operation.ok() for operation in described]
    wrong = [
        complaint
        for operation in operations
        if operation.path not in ENDLESS and (complaint := complaint_of(operation)) is not None
    ]
    assert len(operations) > 4
    assert not wrong, "\n\n".join(wrong)


def complaint_of(operation: Any) -> str | None:
    try:
        try_operation(operation)
    except (Exception, ExceptionGroup) as error:
        return f"{operation.method.upper()} {operation.path}: {error}"
    return None


def try_operation(operation: Any) -> None:
    headers = {"Authorization": f"Bearer {token()}"}

    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case: Any) -> None:
        answer = case.call(headers=headers, timeout=ANSWER_LIMIT_S)
        named = f"{operation.method.upper()} {operation.path}: {answer.status_code}"
        assert answer.status_code < 500 or answer.status_code == 503, f"{named}: {answer.text}"
        if answer.status_code >= 400 and operation.method != "head":
            assert read_error(answer.content) is not None, f"{named}: {answer.text}"
        assert str(answer.status_code) in operation.definition.raw["responses"], named
        checks = [*CHECKS] if operation.path in NOT_CHECKED else [*CHECKS, SCHEMA]
        case.validate_response(answer, checks=checks)

    check()
