"""Values that fit a SQL type, made canonical.

`coercer` compiles a type into one function from a JSON-able value to its canonical form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import msgspec

from tocsin.model import ATTACHMENT, Attachment, is_attachment_id
from tocsin.protocol import numbers
from tocsin.protocol.nesting import too_deep
from tocsin.sql.names import by_lower, fields_by_declared
from tocsin.sql.types import SqlType, parse_type

Coercer = Callable[[Any], Any]

_WIDE = Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN)  # Python's own stops at 28 digits
_FLOAT_MAX = 3.4028234663852886e38
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,80}/[A-Za-z0-9!#$&^_.+-]{1,80}")
_NAME_CHARACTERS = 255


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _refusal(wanted: object, value: Any, why: str = "") -> ValueError:
    return ValueError(f"expected {wanted}, got {_shown(value)}{f' ({why})' if why else ''}")


def _boolean(value: Any) -> Any:
    if value is None or value is True or value is False:
        return value
    raise _refusal("BOOLEAN", value)


def _integer(kind: str, bits: int) -> Coercer:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def coerce_integer(value: Any) -> Any:
        if type(value) is not int:
            if value is None:
                return None
            if type(value) is Decimal:
                is_whole = value == value.to_integral_value()
            else:
                is_whole = type(value) is float and value.is_integer()
            if not is_whole:
                raise _refusal(kind, value)
            value = int(value) if low <= value <= high else value
        if not low <= value <= high:
            raise _refusal(kind, value, f"outside {low}…{high}")
        return value

    return coerce_integer


def _floating(kind: str, limit: float) -> Coercer:
    def coerce_floating(value: Any) -> Any:
        if type(value) is not float:
            if value is None:
                return None
            if type(value) is not int and type(value) is not Decimal:
                raise _refusal(kind, value)
            try:
                value = float(value)
            except OverflowError:
                raise _refusal(kind, value, "too large") from None
        if not -limit <= value <= limit:  # NaN and the infinities fail this too
            raise _refusal(kind, value, "not a finite number of this type")
        return value

    return coerce_floating


def _decimal(wanted: SqlType) -> Coercer:
    unit = Decimal(1).scaleb(-wanted.scale)
    limit = Decimal(10) ** (wanted.precision - wanted.scale)

    def coerce_decimal(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
            raise _refusal(wanted, value)
        try:
            number = Decimal(repr(value) if isinstance(value, float) else value)
        except InvalidOperation:
            raise _refusal(wanted, value) from None
        if not number.is_finite() or number.copy_abs() >= limit:
            raise _refusal(wanted, value, "out of range")
        fixed = number.quantize(unit, context=_WIDE)
        if fixed != number:
            raise _refusal(wanted, value, f"more than {wanted.scale} decimals")
        return f"{fixed:f}"

    return coerce_decimal


def _string(value: Any) -> Any:
    if value is None or type(value) is str:
        return value
    raise _refusal("STRING", value)


def _timestamp(value: Any) -> Any:
    if value is None:
        return None
    try:
        if type(value) is str:
            moment = datetime.fromisoformat(value)
        elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            moment = datetime.fromtimestamp(float(value), UTC)
        else:
            raise _refusal("TIMESTAMP", value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        elif moment.tzinfo is not UTC:
            moment = moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        why = "ISO-8601 text such as 2026-11-16T02:00:00Z, or seconds since 1970"
        raise _refusal("TIMESTAMP", value, why) from None
    return moment.isoformat(timespec="microseconds")[:-6] + "Z"


def _date(value: Any) -> Any:
    if value is None:
        return None
    if type(value) is str:
        try:
            return date.fromisoformat(value).isoformat()
        except ValueError:
            pass
    raise _refusal("DATE", value, "YYYY-MM-DD")


def _array(wanted: SqlType) -> Coercer:
    item = _compile(wanted.items[0])

    def coerce_array(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise _refusal(wanted, value)
        return [item(element) for element in value]

    return coerce_array


def _map(wanted: SqlType) -> Coercer:
    item = _compile(wanted.items[1])

    def coerce_map(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict) or not all(type(key) is str for key in value):
            raise _refusal(wanted, value)
        return {key: item(element) for key, element in value.items()}

    return coerce_map


def _struct(wanted: SqlType) -> Coercer:
    fields = {n: _compile(t) for n, t in zip(wanted.names, wanted.items, strict=True)}
    declared = by_lower(fields)

    def coerce_struct(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _refusal(wanted, value)
        if not value.keys() <= fields.keys():
            value = fields_by_declared(value, declared)
            for key in value.keys() - fields.keys():
                raise ValueError(f"{wanted} has no field {key!r}")
        return {name: coerce_field(value.get(name)) for name, coerce_field in fields.items()}

    return coerce_struct


def _attachment(value: Any) -> Any:
    """What is said of it; whether its bytes are there, others know."""
    if value is None:
        return None
    try:
        attachment = msgspec.convert(value, Attachment)
    except msgspec.ValidationError as error:
        why = f"{error}; it is what the upload answered: id, size, type, and a name if you like"
        raise _refusal(ATTACHMENT, value, why) from None
    if not is_attachment_id(attachment.id):
        why = "id is the SHA-256 of the bytes: 64 hexadecimal digits, lower case"
        raise _refusal(ATTACHMENT, attachment.id, why)
    if not 0 <= attachment.size < 1 << 63:
        raise _refusal(ATTACHMENT, attachment.size, "size is a number of bytes")
    if not _MEDIA_TYPE.fullmatch(attachment.type):
        raise _refusal(ATTACHMENT, attachment.type, "type is a media type such as image/png")
    if attachment.name is not None and not _plain_name(attachment.name):
        raise _refusal(ATTACHMENT, attachment.name, "name is a file's name, without folders")
    return msgspec.to_builtins(attachment)


def _plain_name(name: str) -> bool:
    """Somebody will save the attachment under it."""
    if not 0 < len(name) <= _NAME_CHARACTERS or name in (".", ".."):
        return False
    return name.isprintable() and not set(name) & set("/\\:")


def _compile(wanted: SqlType) -> Coercer:
    match wanted.kind:
        case "BOOLEAN":
            return _boolean
        case "INT":
            return _integer("INT", 32)
        case "BIGINT":
            return _integer("BIGINT", 64)
        case "FLOAT":
            return _floating("FLOAT", _FLOAT_MAX)
        case "DOUBLE":
            return _floating("DOUBLE", math.nextafter(math.inf, 0))
        case "DECIMAL":
            return _decimal(wanted)
        case "STRING":
            return _string
        case "TIMESTAMP":
            return _timestamp
        case "DATE":
            return _date
        case "ARRAY":
            return _array(wanted)
        case "MAP":
            return _map(wanted)
        case "ATTACHMENT":
            return _attachment
        case _:
            return _struct(wanted)


@lru_cache(maxsize=4096)
def coercer(type_text: str) -> Coercer:
    """One function per type: canonical value (None stays None), or ValueError with the reason."""
    return _compile(parse_type(type_text))


def coerce(value: Any, type_text: str) -> Any:
    return coercer(type_text)(value)


@lru_cache(maxsize=4096)
def text_coercer(type_text: str) -> Callable[[str], Any]:
    """One function per type, from a text (a CSV cell, a command-line argument) to its value.

    An empty text is NULL, except for STRING. Arrays, maps and structs are written as JSON.
    """
    wanted = parse_type(type_text)
    fit = _compile(wanted)
    match wanted.kind:
        case "STRING":
            return lambda text: text
        case "BOOLEAN":
            read: Callable[[str], Any] = _read_boolean
        case "INT" | "BIGINT" | "FLOAT" | "DOUBLE":
            read = _read_number
        case _ if wanted.scalar:
            read = str.strip
        case _:
            read = _read_json

    def coerce_bare(text: str) -> Any:
        if not text or text.isspace():
            return None
        try:
            value = read(text)
        except ValueError:
            raise _refusal(wanted, text) from None
        return fit(value)

    return coerce_bare


def _read_boolean(text: str) -> bool | str:
    known: dict[str, bool] = {"true": True, "false": False}
    return known.get(text.strip().lower(), text)


def _read_json(text: str) -> Any:
    if too_deep(text.encode(errors="replace")):
        raise ValueError("it nests too deep")
    return numbers.decode(text)


def _read_number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def coerce_text(text: str, type_text: str) -> Any:
    return text_coercer(type_text)(text)
