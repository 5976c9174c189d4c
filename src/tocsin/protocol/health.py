"""What every service says about itself, without a token."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from tocsin.protocol.fields import about


class Health(Struct, frozen=True):
    """The answer of `/healthz`; its HTTP status is 503 while the service does not do its work."""

    status: Annotated[str, about("`ok`, or what keeps the service from its work")]
    instance: Annotated[
        str | None,
        about(
            "the SERVICE_INSTANCE of the process's environment: whoever started it knows that"
            " nobody else answers on its port"
        ),
    ]
    leads: Annotated[
        bool | None, about("of a cluster: whether it has its store; a standby has not")
    ] = None


class Done(Struct, frozen=True):
    """An answer with nothing to tell but that it was done."""
