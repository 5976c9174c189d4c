"""Statements about roles and grants."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tocsin import sql
from tocsin.errors import Conflict
from tocsin.intake.dead_letters import DEAD_LETTERS
from tocsin.model import Grant, Privilege, Subscription
from tocsin.protocol.publishing import StatementResult
from tocsin.storage.store.grants import KIND_OF
from tocsin.storage.store.names import missing

if TYPE_CHECKING:
    from tocsin.cluster.cluster import Cluster
    from tocsin.cluster.statements import Session

COLUMNS = ["role", "privilege", "on", "name"]
SCOPES_ALONE = "nothing is granted any more: scopes alone decide"


async def create_role(session: Session, statement: sql.CreateRole) -> StatementResult:
    name = statement.name
    try:
        await asyncio.to_thread(session.cluster.store.grants.create_role, name)
    except Conflict:
        if not statement.if_not_exists:
            raise
        return StatementResult("create role", f"role {name} was there already")
    return StatementResult("create role", f"role {name} created")


async def drop_role(cluster: Cluster, name: str) -> str:
    """What there is to say of it, beside that it is gone."""
    revoked = await asyncio.to_thread(cluster.store.revocation.drop_role, name)
    cluster.subscriptions.ended(revoked.ended)
    left = [] if cluster.permissions.in_force or not revoked.grants else [SCOPES_ALONE]
    return "; ".join([f"role {name} dropped", *_ended(revoked.ended), *left])


async def grant(session: Session, statement: sql.GrantPrivileges) -> StatementResult:
    privileges, name, role = statement.privileges, statement.name, statement.role
    if name == DEAD_LETTERS.name and "publish" in privileges:
        raise Conflict(
            f"{name} belongs to the system: nobody can be allowed to publish to it",
            field="dataset",
            hint=f"GRANT READ ON DATASET {name} TO … lets a role see it",
        )
    grants = session.cluster.store.grants
    began = not grants.rights.in_force
    new = await asyncio.to_thread(grants.grant, role, privileges, name)
    message = f"{_said(privileges, name)} granted to {role}" if new else "it was granted already"
    if began and grants.rights.in_force:
        message += "; from now on grants decide"
    return StatementResult("grant", message)


async def revoke(session: Session, statement: sql.RevokePrivileges) -> StatementResult:
    cluster, name, role = session.cluster, statement.name, statement.role
    revoking = cluster.store.revocation.revoke
    revoked = await asyncio.to_thread(revoking, role, statement.privileges, name)
    cluster.subscriptions.ended(revoked.ended)
    gone = [taken.privilege for taken in revoked.grants]
    if not gone:
        said = _said(statement.privileges, name)
        return StatementResult("revoke", f"{role} had no {said}: nothing has changed")
    parts = [f"{_said(gone, name)} revoked from {role}", *_ended(revoked.ended)]
    return StatementResult("revoke", "; ".join(parts))


async def show_grants(session: Session, statement: sql.ShowGrants) -> StatementResult:
    grants, role = session.cluster.store.grants, statement.role
    if "admin" not in session.identity.scopes:
        own = {name.lower() for name in session.identity.roles}
        if role is not None and role not in own:
            raise missing("role", role)
        shown = [
            granted
            for granted in await asyncio.to_thread(grants.all_)
            if granted.role in own and role in (None, granted.role)
        ]
    elif role is None:
        shown = await asyncio.to_thread(grants.all_)
    else:
        shown = await asyncio.to_thread(grants.of_role, role)
    return StatementResult("show grants", "", COLUMNS, [_row(granted) for granted in shown])


def _row(granted: Grant) -> list[str]:
    kind = KIND_OF[granted.privilege]
    return [granted.role, granted.privilege.upper(), kind.upper(), granted.name]


def _said(privileges: Sequence[Privilege], name: str) -> str:
    words = ", ".join(privilege.upper() for privilege in privileges)
    return f"{words} ON {KIND_OF[privileges[0]].upper()} {name}"


def _ended(ended: Sequence[Subscription]) -> list[str]:
    count = len(ended)
    return [f"{count} subscription{'' if count == 1 else 's'} ended"] if count else []
