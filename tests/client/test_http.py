from __future__ import annotations

import httpx
import pytest

from tocsin import errors
from tocsin.client.http import Http, error_of
from tocsin.protocol.broker import BrokerInfo
from tocsin.protocol.failure import error_body
from tocsin.protocol.publishing import Published, StatementResults

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
        content=error_body(told),
        request=httpx.Request("GET", "http://service/"),
    )
    raised = error_of(response)
    assert type(raised) is kind
    assert (raised.message, raised.field, raised.hint) == ("what was wrong", "where", "what to do")


async def test_a_service_that_is_not_there_is_unavailable_by_name() -> None:
    http = Http("http://127.0.0.1:1", "token")
    with pytest.raises(errors.Unavailable) as raised:
        await http.call("GET", "/v1/broker", BrokerInfo, repeatable=True, attempts=2)
    assert "http://127.0.0.1:1" in raised.value.message
    await http.close()


def answering(*outcomes: Exception) -> Http:
    """A service with which these things happen, one after the other."""
    left = list(outcomes)

    def answer(_: httpx.Request) -> httpx.Response:
        outcome = left.pop(0)
        if isinstance(outcome, errors.TocsinError):
            return httpx.Response(outcome.status, content=error_body(outcome))
        raise outcome

    http = Http("http://service", "token")
    http._client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return http


@pytest.mark.parametrize(
    ("outcomes", "in_doubt"),
    [
        ([httpx.ReadTimeout("late")] * 2, True),
        ([httpx.ReadError("cut"), httpx.ConnectError("refused")], True),
        ([httpx.ReadError("cut"), errors.Unavailable("starting")], True),
        ([errors.Unconfirmed("Kafka is away"), errors.Unavailable("still away")], True),
        ([httpx.ConnectError("refused")] * 2, False),
        ([errors.Unavailable("starting")] * 2, False),
    ],
)
async def test_a_publication_that_may_have_been_taken_is_told_as_such(
    outcomes: list[Exception], in_doubt: bool
) -> None:
    http = answering(*outcomes)
    with pytest.raises(errors.Unavailable) as raised:
        await http.call(
            "POST", "/v1", Published, repeatable=True, attempts=2, headers={"idempotency-key": "k"}
        )
    assert isinstance(raised.value, errors.Unconfirmed) == in_doubt


@pytest.mark.parametrize("lost", [httpx.ReadTimeout("late"), httpx.ConnectError("refused")])
async def test_a_statement_whose_answer_was_lost_may_have_been_run(lost: httpx.HTTPError) -> None:
    with pytest.raises(errors.Unavailable) as raised:
        await answering(*[lost] * 2).call(
            "POST", "/v1/statements", StatementResults, repeatable=False, attempts=2
        )
    sent = isinstance(lost, httpx.ReadTimeout)
    assert isinstance(raised.value, errors.Unconfirmed) == sent


async def test_a_question_whose_answer_was_lost_leaves_no_doubt() -> None:
    with pytest.raises(errors.Unavailable) as raised:
        await answering(httpx.ReadTimeout("late")).call(
            "GET", "/v1", BrokerInfo, repeatable=True, attempts=1
        )
    assert not isinstance(raised.value, errors.Unconfirmed)
