"""Roles and what is granted to them, and the one answer to "may they?".

Every publication and subscription asks. The store has one writer, us: so the answer is in memory,
and is replaced in the order of commits, before the next writer starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, delete, insert, select, update

from tocsin.errors import Conflict, Forbidden
from tocsin.model import Grant, Privilege, filtered_dataset
from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write, reads, writes
from tocsin.storage.store.names import exists, missing, refuse_unstorable, require

Kind = Literal["channel", "dataset"]

KIND_OF: dict[Privilege, Kind] = {"subscribe": "channel", "publish": "dataset", "read": "dataset"}
"""What a privilege is granted on."""

_roles = schema.roles
_grants = schema.grants


class Credentials(Struct, frozen=True):
    """What somebody shows who wants something. Roles match without regard to case, as names do."""

    roles: tuple[str, ...] = ()
    admin: bool = False

    @classmethod
    def of(cls, roles: Iterable[str], admin: bool) -> Credentials:
        return cls(tuple(sorted({role.lower() for role in roles})), admin)

    def stored(self) -> str:
        return msgspec.json.encode(self).decode()


def read_credentials(stored: str | None) -> Credentials | None:
    return None if stored is None else msgspec.json.decode(stored, type=Credentials)


def needed_for(channel: str) -> tuple[Privilege, str]:
    """What a subscription to a channel takes; a dataset's filters are read."""
    dataset = filtered_dataset(channel)
    return ("subscribe", channel) if dataset is None else ("read", dataset)


class Rights(Struct, frozen=True):
    """Who may what, as of one commit. Until something is granted, grants decide nothing."""

    in_force: bool
    roles_of: Mapping[tuple[Privilege, str], frozenset[str]]

    def allow(self, shown: Credentials | None, privilege: Privilege, name: str) -> bool:
        if not self.in_force:
            return True
        if shown is None:
            return False
        return shown.admin or not self._roles(privilege, name).isdisjoint(shown.roles)

    def show(self, shown: Credentials | None, kind: Kind, name: str) -> bool:
        """Whether they may know that it is there: they have some grant on it."""
        return any(
            self.allow(shown, privilege, name)
            for privilege, granted_on in KIND_OF.items()
            if granted_on == kind
        )

    def require(self, shown: Credentials | None, privilege: Privilege, name: str) -> None:
        """Raise unless they may; what they have no grant on looks as if it were not there."""
        if self.allow(shown, privilege, name):
            return
        kind = KIND_OF[privilege]
        if shown is None:
            raise Forbidden(
                f"{kind} {name} is for some roles only, and the broker does not say who asks",
                field="role",
                hint="upgrade the broker",
            )
        if not self.show(shown, kind, name):
            raise missing(kind, name)
        raise Forbidden(
            f"{privilege.upper()} ON {kind.upper()} {name} is granted to none of this token's roles"
            f" ({', '.join(shown.roles) or 'it has none'})",
            field="role",
            hint=f"an admin may say: GRANT {privilege.upper()} ON {kind.upper()} {name} TO …",
        )

    def _roles(self, privilege: Privilege, name: str) -> frozenset[str]:
        return self.roles_of.get((privilege, name), frozenset())


class Grants:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.rights = self._read()

    @writes
    def create_role(self, write: Write, name: str) -> None:
        refuse_unstorable(name)
        if exists(write.connection, "role", name):
            raise Conflict(f"role {name} exists already", field="name", hint="SHOW ROLES lists it")
        row = {"name": name, "granted": 0, "created_at": write.now}
        write.connection.execute(insert(_roles), row)

    @reads
    def roles(self, connection: Connection) -> dict[str, bool]:
        """By name, whether something was ever granted to it."""
        rows = connection.execute(select(_roles).order_by(_roles.c.name))
        return {row.name: bool(row.granted) for row in rows}

    @writes
    def grant(self, write: Write, role: str, privileges: Iterable[Privilege], name: str) -> int:
        """How many of these are new."""
        privileges = list(dict.fromkeys(privileges))
        require(write.connection, "role", role)
        for kind in dict.fromkeys(KIND_OF[privilege] for privilege in privileges):
            require(write.connection, kind, name)
        had = _had(write.connection, role, name)
        new = [privilege for privilege in privileges if privilege not in had]
        if new:
            rows = [{"role": role, "privilege": privilege, "name": name} for privilege in new]
            write.connection.execute(insert(_grants), rows)
            mark = update(_roles).where(_roles.c.name == role).values(granted=1)
            write.connection.execute(mark)
            self.change(write)
        return len(new)

    def all_(self) -> list[Grant]:
        return self._listed()

    @reads
    def of_role(self, connection: Connection, role: str) -> list[Grant]:
        require(connection, "role", role)
        return _read_grants(connection, role)

    # -- parts of others' transactions ------------------------------------------------------------

    def take(
        self, write: Write, role: str, privileges: Iterable[Privilege], name: str
    ) -> list[Privilege]:
        """The grants that are no more; it is an error if the role, or what they are on, is not
        there."""
        privileges = list(dict.fromkeys(privileges))
        require(write.connection, "role", role)
        for kind in dict.fromkeys(KIND_OF[privilege] for privilege in privileges):
            require(write.connection, kind, name)
        had = _had(write.connection, role, name)
        gone = [privilege for privilege in privileges if privilege in had]
        write.connection.execute(
            delete(_grants).where(
                _grants.c.role == role, _grants.c.name == name, _grants.c.privilege.in_(gone)
            )
        )
        return gone

    def drop_role(self, write: Write, name: str) -> list[Grant]:
        """The grants that went with it."""
        require(write.connection, "role", name)
        gone = _read_grants(write.connection, name)
        write.connection.execute(delete(_grants).where(_grants.c.role == name))
        write.connection.execute(delete(_roles).where(_roles.c.name == name))
        return gone

    def drop_object(self, write: Write, kind: Kind, name: str) -> None:
        """It is dropped, and its grants with it."""
        privileges = [privilege for privilege, of in KIND_OF.items() if of == kind]
        on_it = (_grants.c.name == name) & _grants.c.privilege.in_(privileges)
        if write.connection.execute(delete(_grants).where(on_it)).rowcount:
            self.change(write)

    def change(self, write: Write) -> Rights:
        """Rights as they are from this commit on."""
        rights = _rights(write.connection)
        write.after_commit.append(lambda: self._set(rights))
        return rights

    def _set(self, rights: Rights) -> None:
        self.rights = rights

    @reads
    def _read(self, connection: Connection) -> Rights:
        return _rights(connection)

    @reads
    def _listed(self, connection: Connection) -> list[Grant]:
        return _read_grants(connection)


def _had(connection: Connection, role: str, name: str) -> set[Privilege]:
    asked = select(_grants.c.privilege).where(_grants.c.role == role, _grants.c.name == name)
    return set(connection.scalars(asked))


def _read_grants(connection: Connection, role: str | None = None) -> list[Grant]:
    asked = select(_grants).order_by(_grants.c.role, _grants.c.name, _grants.c.privilege)
    if role is not None:
        asked = asked.where(_grants.c.role == role)
    return [Grant(row.role, row.privilege, row.name) for row in connection.execute(asked)]


def _rights(connection: Connection) -> Rights:
    roles_of: dict[tuple[Privilege, str], set[str]] = {}
    for grant in _read_grants(connection):
        roles_of.setdefault((grant.privilege, grant.name), set()).add(grant.role)
    was_granted = select(_roles.c.name).where(_roles.c.granted > 0).limit(1)
    in_force = connection.execute(was_granted).first() is not None
    return Rights(in_force, {about: frozenset(roles) for about, roles in roles_of.items()})
