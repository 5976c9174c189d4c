"""GRANT, REVOKE and SHOW GRANTS."""

from __future__ import annotations

from typing import Any

from tocsin.model import Privilege
from tocsin.sql.create import Read
from tocsin.sql.statements import GrantPrivileges, RevokePrivileges, ShowGrants
from tocsin.sql.tokens import Reader

_PRIVILEGES: dict[Privilege, str] = {
    "subscribe": "CHANNEL",
    "publish": "DATASET",
    "read": "DATASET",
}
_NAMED = "SUBSCRIBE, PUBLISH or READ"
_FIXES = {
    ("SUBSCRIBE", "DATASET"): "READ ON DATASET allows to subscribe to a dataset's records",
    ("READ", "CHANNEL"): "SUBSCRIBE ON CHANNEL allows to read a channel's results",
    ("PUBLISH", "CHANNEL"): "channels are asked, records go to datasets: PUBLISH ON DATASET",
}
ROLE = "a role's name"


def read_grant(reader: Reader) -> Read:
    """What follows GRANT."""
    return GrantPrivileges, _privileges(reader, "TO")


def read_revoke(reader: Reader) -> Read:
    """What follows REVOKE."""
    return RevokePrivileges, _privileges(reader, "FROM")


def read_show_grants(reader: Reader) -> Read:
    """What follows SHOW GRANTS."""
    return ShowGrants, {"role": reader.name(ROLE) if reader.accept("FOR") else None}


def _privileges(reader: Reader, before_role: str) -> dict[str, Any]:
    places: dict[Privilege, int] = {}
    while True:
        start = reader.offset
        privilege = _privilege(reader)
        if privilege in places:
            reader.fail_at(start, f"{privilege.upper()} is named twice", field="privilege")
        places[privilege] = start
        if not reader.accept(","):
            break
    reader.expect("ON")
    kind = _kind(reader)
    for privilege, start in places.items():
        if _PRIVILEGES[privilege] != kind:
            word = privilege.upper()
            reader.fail_at(
                start,
                f"{word} is granted ON {_PRIVILEGES[privilege]}, not ON {kind}",
                field="privilege",
                hint=_FIXES[word, kind],
            )
    name = reader.name(f"a {kind.lower()}'s name")
    reader.expect(before_role)
    return {"privileges": tuple(places), "name": name, "role": reader.name(ROLE)}


def _privilege(reader: Reader) -> Privilege:
    for privilege in _PRIVILEGES:
        if reader.accept(privilege.upper()):
            return privilege
    raise reader.expected(_NAMED, hint="who has which role is said by tokens, not by GRANT")


def _kind(reader: Reader) -> str:
    for kind in ("CHANNEL", "DATASET"):
        if reader.accept(kind):
            return kind
    raise reader.expected("CHANNEL or DATASET")
