"""A subscription's arguments, bound to the parameters of its channel.

The answer is canonical: equal questions give equal dicts, and so one backend subscription. Which
parameters the channel's query lets a subscription leave open is not known here.
"""

from __future__ import annotations

from typing import Any

from tocsin.errors import InvalidInput
from tocsin.model import ANY, Arguments, Channel
from tocsin.sql.coercion import coerce
from tocsin.sql.names import by_lower, fields_by_declared


def bind_arguments(channel: Channel, given: dict[str, Any] | list[Any]) -> Arguments:
    """Arguments in the order of the parameters, each in its type's canonical form."""
    named = given if isinstance(given, dict) else _by_position(channel, given)
    signature = _signature(channel)
    known = by_lower(parameter.name for parameter in channel.parameters)
    try:
        named = fields_by_declared({str(name): value for name, value in named.items()}, known)
    except ValueError as error:
        raise InvalidInput(str(error), hint=signature) from None
    for name in named.keys() - known.values():
        raise InvalidInput(
            f"channel {channel.name!r} has no parameter {name!r}", field=name, hint=signature
        )
    bound: Arguments = {}
    for parameter in channel.parameters:
        name = parameter.name
        if name not in named:
            raise InvalidInput(f"parameter {name!r} is missing", field=name, hint=signature)
        if named[name] is None:
            raise InvalidInput(f"parameter {name!r} cannot be NULL", field=name, hint=signature)
        if named[name] == ANY:
            bound[name] = dict(ANY)
            continue
        try:
            value = coerce(named[name], parameter.type)
        except ValueError as error:
            raise InvalidInput(f"parameter {name!r}: {error}", field=name, hint=signature) from None
        # -0.0 and 0.0 ask the same question.
        bound[name] = 0.0 if isinstance(value, float) and value == 0 else value
    return bound


def _by_position(channel: Channel, given: list[Any]) -> dict[str, Any]:
    names = [parameter.name for parameter in channel.parameters]
    if len(given) > len(names):
        raise InvalidInput(
            f"channel {channel.name!r} takes {len(names)} arguments, got {len(given)}",
            field=str(len(names) + 1),
            hint=_signature(channel),
        )
    return dict(zip(names, given, strict=False))


def _signature(channel: Channel) -> str:
    listed = ", ".join(f"{parameter.name} {parameter.type}" for parameter in channel.parameters)
    return f"it is declared as {channel.name}({listed})"
