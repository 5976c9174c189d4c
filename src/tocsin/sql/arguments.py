"""A subscription's arguments, bound to the parameters of its channel.

The answer is canonical: equal questions give equal dicts, and so one backend subscription. What is
bound to a claim is taken from the subscriber's token, and from nowhere else. Which parameters the
channel's query lets a subscription leave open is not known here.
"""

from __future__ import annotations

from typing import Any

from tocsin.errors import Forbidden, InvalidInput
from tocsin.model import ANY, SUBSCRIBER, Arguments, Channel, Parameter
from tocsin.sql.claims import Claims, claim_of, described
from tocsin.sql.coercion import coerce
from tocsin.sql.names import by_lower, fields_by_declared


def bind_arguments(
    channel: Channel, given: dict[str, Any] | list[Any], claims: Claims | None = None
) -> Arguments:
    """Arguments in the order of the parameters, each in its type's canonical form. `claims` are
    those of the subscriber's token; None: nobody showed one."""
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
        if parameter.claim is None:
            value = _given(parameter, named, signature)
        else:
            if parameter.name in named:
                raise _not_to_be_given(parameter, signature)
            value = _claimed(channel, parameter, parameter.claim, claims)
        bound[parameter.name] = _with_one_zero(value)
    return bound


def bound_arguments(channel: Channel, claims: Claims) -> Arguments:
    """The values of those parameters alone that are bound to claims."""
    return {
        parameter.name: _with_one_zero(_claimed(channel, parameter, parameter.claim or "", claims))
        for parameter in channel.bound
    }


def _with_one_zero(value: Any) -> Any:
    """-0.0 and 0.0 ask the same question."""
    return 0.0 if isinstance(value, float) and value == 0 else value


def _given(parameter: Parameter, named: dict[str, Any], signature: str) -> Any:
    name = parameter.name
    if name not in named:
        raise InvalidInput(f"parameter {name!r} is missing", field=name, hint=signature)
    value = named[name]
    if value is None:
        raise InvalidInput(f"parameter {name!r} cannot be NULL", field=name, hint=signature)
    if value == ANY:
        if parameter.required:
            raise InvalidInput(
                f"parameter {name!r} is REQUIRED: it cannot be left open",
                field=name,
                hint=signature,
            )
        return dict(ANY)
    try:
        return coerce(value, parameter.type)
    except ValueError as error:
        raise InvalidInput(f"parameter {name!r}: {error}", field=name, hint=signature) from None


def _claimed(channel: Channel, parameter: Parameter, claim: str, claims: Claims | None) -> Any:
    if claims is None:
        raise Forbidden(
            f"channel {channel.name!r} takes {parameter.name!r} from the claim {claim!r} of its"
            " subscriber's token, and this call has none of theirs",
            field=parameter.name,
            hint="subscribers ask with their own token; who asks for them passes it on",
        )
    return claim_of(claims, claim, parameter.type, parameter.name)


def _not_to_be_given(parameter: Parameter, signature: str) -> InvalidInput:
    return InvalidInput(
        f"parameter {parameter.name!r} is bound to the claim {parameter.claim!r} of the"
        " subscriber's token: it cannot be given",
        field=parameter.name,
        hint=f"leave it out; {signature}",
    )


def _by_position(channel: Channel, given: list[Any]) -> dict[str, Any]:
    names = [parameter.name for parameter in channel.given]
    if len(given) > len(names):
        raise _too_many(channel, given, len(names))
    return dict(zip(names, given, strict=False))


def _too_many(channel: Channel, given: list[Any], expected: int) -> InvalidInput:
    bound = [parameter.name for parameter in channel.bound if parameter != SUBSCRIBER]
    also = f" ({', '.join(bound)} cannot be given: bound to claims)" if bound else ""
    return InvalidInput(
        f"channel {channel.name!r} takes {expected} arguments, got {len(given)}{also}",
        field=bound[0] if bound else str(expected + 1),
        hint=_signature(channel),
    )


def _signature(channel: Channel) -> str:
    declared = ", ".join(described(p) for p in channel.parameters if p != SUBSCRIBER)
    return f"it is declared as {channel.name}({declared})"
