"""Statements about quotas."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tocsin import sql
from tocsin.errors import Forbidden
from tocsin.model import EVERYBODY, Quota, QuotaName
from tocsin.protocol.publishing import StatementResult

if TYPE_CHECKING:
    from tocsin.cluster.statements import Session

COLUMNS = ["for", "quota", "size", "per"]
PER: dict[QuotaName, str] = {
    "subscriptions": "subscriber",
    "parameter_sets": "channel",
    "publications": "second",
    "bytes": "second",
    "connections": "broker",
}


async def set_quota(session: Session, statement: sql.SetQuota) -> StatementResult:
    quota = Quota(statement.role, statement.quota, statement.size)
    await asyncio.to_thread(session.cluster.store.quotas.set_size, quota)
    message = f"{quota.name}: {quota.size} per {PER[quota.name]} for {_whose(quota.role)}"
    return StatementResult("set quota", message)


async def drop_quota(session: Session, statement: sql.DropQuota) -> StatementResult:
    role, name = statement.role, statement.quota
    there = await asyncio.to_thread(session.cluster.store.quotas.drop, role, name)
    if not there:
        message = f"there was no quota of {name} for {_whose(role)}: nothing has changed"
        return StatementResult("drop quota", message)
    return StatementResult("drop quota", f"quota of {name} for {_whose(role)} dropped")


async def show_quotas(session: Session, statement: sql.ShowQuotas) -> StatementResult:
    if statement.subscriber is not None:
        return await _show_used(session, statement.subscriber)
    quotas: Sequence[Quota] = await asyncio.to_thread(session.cluster.store.quotas.all_)
    if "admin" not in session.identity.scopes:
        own = {EVERYBODY, *(role.lower() for role in session.identity.roles)}
        quotas = [quota for quota in quotas if quota.role in own]
    rows: list[list[Any]] = [
        [_whose(quota.role), quota.name, quota.size, PER[quota.name]] for quota in quotas
    ]
    return StatementResult("show quotas", "", COLUMNS, rows)


async def _show_used(session: Session, subscriber: str) -> StatementResult:
    """What there is at once is known; what there is in a second has passed."""
    if "admin" not in session.identity.scopes and subscriber != session.identity.subject:
        raise Forbidden("only an admin may see what others use", field="subscriber")
    used = await asyncio.to_thread(session.cluster.store.quotas.used, subscriber)
    rows: list[list[Any]] = [["subscriptions", used.total(), ""]]
    rows += [["parameter_sets", count, channel] for channel, count in sorted(used.items())]
    return StatementResult("show quotas", "", ["quota", "used", "channel"], rows)


def _whose(role: str) -> str:
    return "EVERYBODY" if role == EVERYBODY else f"ROLE {role}"
