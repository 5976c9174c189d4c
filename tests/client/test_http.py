from __future__ import annotations

import httpx
import msgspec
import pytest

from tocsin import errors
from tocsin.client.http import Http, error_of

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type)]


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if issubclass(kind, errors.TocsinError)], ids=lambda k: k.code
)
def test_the_error_that_a_service_told_is_raised_with_its_words(
    kind: type[errors.TocsinError],
) -> None:
    told = kind("what was wrong", field="where", hint="what to do")
    response = httpx.Response(
        kind.status,
        content=msgspec.json.encode({"error": told.as_dict()}),
        request=httpx.Request("GET", "http://service/"),
    )
    raised = error_of(response)
    assert type(raised) is kind
    assert (raised.message, raised.field, raised.hint) == ("what was wrong", "where", "what to do")


async def test_a_service_that_is_not_there_is_unavailable_by_name() -> None:
    http = Http("http://127.0.0.1:1", "token")
    with pytest.raises(errors.Unavailable) as raised:
        await http.call("GET", "/v1/broker", repeatable=True, attempts=2)
    assert "http://127.0.0.1:1" in raised.value.message
    await http.close()
