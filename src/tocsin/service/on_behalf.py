"""Whom a broker speaks for: it passes on the token that a subscriber showed it, and the service
that is asked verifies that token itself.

The call stays the broker's (`Call.identity`); what the subscriber may have is decided by this one.
"""

from __future__ import annotations

from tocsin.errors import Forbidden, Unauthenticated
from tocsin.protocol.cluster import SUBSCRIBER_TOKEN
from tocsin.service.tokens import Identity
from tocsin.service.web import Call


async def on_behalf_of(call: Call, subscriber: str | None = None) -> Identity | None:
    """The identity that decides: the caller's own, or, if a broker calls, that of the subscriber's
    token. None: a broker says nothing about who asks, as one may that is held to no name.
    `subscriber`: whom the call names."""
    token = call.request.headers.get(SUBSCRIBER_TOKEN)
    if "broker" not in call.identity.scopes:
        if token is not None:
            raise Forbidden("only brokers pass on a subscriber's token", field=SUBSCRIBER_TOKEN)
        return call.identity
    if token is None:
        if subscriber is not None and call.identity.broker not in (None, subscriber):
            raise Forbidden(
                f"broker {call.identity.subject!r} asks for {subscriber!r}, and shows no token of"
                " theirs",
                field=SUBSCRIBER_TOKEN,
                hint="a broker with a credential of its own speaks for those who come to it",
            )
        return call.identity if "admin" in call.identity.scopes else None
    return await _passed_on(call, token, subscriber)


async def _passed_on(call: Call, token: str, subscriber: str | None) -> Identity:
    try:
        identity = await call.verifier.identify(token)
    except Unauthenticated as error:
        error.field = SUBSCRIBER_TOKEN
        raise
    identity.require("subscribe", "admin")
    if subscriber is not None and subscriber != identity.subject:
        raise Forbidden(
            f"the call is for {subscriber!r}, the token that came with it is of"
            f" {identity.subject!r}",
            field=SUBSCRIBER_TOKEN,
            hint="pass on the token of the subscriber that is named",
        )
    return identity
