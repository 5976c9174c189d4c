"""Lists, sizes and settings as people write them on the command line."""

from __future__ import annotations

import re
from pathlib import Path

from tocsin.errors import InvalidInput


def bytes_from(text: str | None) -> int | None:
    """64MB, 512 KiB, 1000 → bytes."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?)(i?)b?\s*", text.lower())
    if match is None:
        raise InvalidInput(f"{text!r} is not a size", field="cache", hint="such as 64MB or 100KB")
    unit = (1024 if match[3] else 1000) ** ("", "k", "m", "g").index(match[2])
    return int(float(match[1]) * unit)


def seconds_from(text: str, field: str) -> float:
    """30s, 5m, 12h, 7d → seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", text.lower())
    if match is None:
        raise InvalidInput(f"{text!r} is not a duration", field=field, hint="such as 90s or 30d")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


_MULTIPLES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
_NUMBER = r"\s*(\d+(?:\.\d+)?)\s*"


def count_from(text: str, field: str) -> float:
    """10M, 50k, 1.5M, 300 → a number. A small m may mean thousandths or millions: it is refused."""
    match = re.fullmatch(_NUMBER + r"([kKMG]?)\s*", text)
    if match is None:
        raise InvalidInput(
            f"{text!r} is not a number", field=field, hint="such as 300, 50k or 10M (millions)"
        )
    return float(match[1]) * _MULTIPLES[match[2]]


def rate_from(text: str, field: str) -> float:
    """50k/s, 0.8/s, 50/m, 2M/h → so many a second."""
    match = re.fullmatch(_NUMBER + r"([kKMG]?)\s*(?:/\s*([smhd]))?\s*", text)
    if match is None:
        raise InvalidInput(
            f"{text!r} is not a rate", field=field, hint="such as 0.8/s, 50/m or 20k/s"
        )
    per_s = {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[3] or "s"]
    return float(match[1]) * _MULTIPLES[match[2]] / per_s


def share_from(text: str, field: str, example: str = "99%") -> float:
    """99 % or 0.99 → 0.99."""
    match = re.fullmatch(_NUMBER + r"(%?)\s*", text)
    if match is None:
        raise InvalidInput(f"{text!r} is not a share", field=field, hint=f"such as {example}")
    return float(match[1]) / (100.0 if match[2] else 1.0)


def size_from(text: str, field: str) -> int:
    """2KB, 64GB → bytes; not nothing."""
    try:
        size_bytes = bytes_from(text)
    except InvalidInput as error:
        raise InvalidInput(error.message, field=field, hint="such as 2KB or 32GB") from None
    if not size_bytes:
        what = field.removesuffix("-size")
        raise InvalidInput(f"a {what} of {text!r}", field=field, hint="such as 2KB or 32GB")
    return size_bytes


def listed(given: list[str] | None) -> list[str] | None:
    """Commas separate, but not those in the brackets of `threshold(0.2,0.8)`."""
    if given is None:
        return None
    parts = [part.strip() for text in given for part in re.split(r",(?![^(]*\))", text)]
    return [part for part in parts if part]


def sizes_from(given: list[str] | None) -> list[int] | None:
    """Cache sizes: 50MB,100MB → bytes."""
    if given is None:
        return None
    sizes = []
    for text in listed(given) or []:
        try:
            sizes.append(bytes_from(text) or 0)
        except InvalidInput as error:
            raise InvalidInput(error.message, field="sizes", hint=error.hint) from None
    return sizes


def check_target(file: Path | None, field: str) -> None:
    """Before the work whose outcome it is to take."""
    if file is None:
        return
    wish = f"cannot {'draw into' if field == 'picture' else 'write'} {file}"
    if file.is_dir():
        raise InvalidInput(f"{wish}: it is a directory", field=field, hint="name a file")
    if not file.absolute().parent.is_dir():
        raise InvalidInput(f"{wish}: its directory is missing", field=field, hint="make it first")


def pairs_from(given: list[str] | None) -> dict[str, str]:
    """`--set FIELD=VALUE`, given repeatedly."""
    settings = {}
    for pair in given or []:
        field, equals, value = pair.partition("=")
        if not equals or not value.strip():
            raise InvalidInput(
                f"--set {pair!r} is not FIELD=VALUE", field="set", hint="such as --set skew=0.8"
            )
        settings[field.strip().replace("-", "_")] = value
    return settings
