"""SET QUOTA, DROP QUOTA and SHOW QUOTAS."""

from __future__ import annotations

from typing import get_args

from tocsin.model import EVERYBODY, QuotaName
from tocsin.sql.create import Read
from tocsin.sql.grants import ROLE
from tocsin.sql.statements import DropQuota, SetQuota, ShowQuotas
from tocsin.sql.tokens import Reader

RATES: frozenset[QuotaName] = frozenset({"publications", "bytes"})
"""Quotas of how much there may be in a second; the others are of how much there may be at once."""
MOST = 10**12
_NAMES: tuple[QuotaName, ...] = get_args(QuotaName)


def read_set(reader: Reader) -> Read:
    """What follows SET."""
    reader.expect("QUOTA")
    quota = _quota(reader)
    reader.expect("=")
    size = _size(reader, quota)
    _per_second(reader, quota)
    return SetQuota, {"quota": quota, "size": size, "role": _whose(reader)}


def read_drop_quota(reader: Reader) -> Read:
    """What follows DROP QUOTA."""
    return DropQuota, {"quota": _quota(reader), "role": _whose(reader)}


def read_show_quotas(reader: Reader) -> Read:
    """What follows SHOW QUOTAS."""
    of_subscriber = reader.accept("FOR")
    if of_subscriber:
        reader.expect("SUBSCRIBER")
    return ShowQuotas, {
        "subscriber": reader.string("a subscriber's name in quotes") if of_subscriber else None
    }


def _quota(reader: Reader) -> QuotaName:
    for name in _NAMES:
        if reader.accept(name.upper()):
            return name
    raise reader.expected(f"{', '.join(_NAMES[:-1])} or {_NAMES[-1]}")


def _size(reader: Reader, quota: QuotaName) -> int:
    start = reader.offset
    size = reader.whole_number()
    if size is None:
        reader.fail("a whole number")
    least = 1 if quota in RATES else 0
    if not least <= size <= MOST:
        reader.fail_at(start, f"a quota of {quota} is {least} to {MOST}", field=quota)
    return size


def _per_second(reader: Reader, quota: QuotaName) -> None:
    start = reader.offset
    given = reader.accept("PER", "SECOND")
    if given and quota not in RATES:
        reader.fail_at(
            start,
            f"{quota} are counted, not measured in time",
            field=quota,
            hint="leave PER SECOND out",
        )
    if not given and quota in RATES:
        reader.fail("PER SECOND", hint=f"the quota of {quota} is for each second")


def _whose(reader: Reader) -> str:
    reader.expect("FOR")
    if reader.accept("EVERYBODY"):
        return EVERYBODY
    if not reader.accept("ROLE"):
        reader.fail("ROLE or EVERYBODY")
    return reader.name(ROLE)
