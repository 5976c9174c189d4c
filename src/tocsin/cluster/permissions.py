"""Who may what: a token's scopes and roles against what is granted to roles.

Statements and REST routes ask here before they do or tell anything. Scopes say what kind of thing a
token may do at all; where something is granted, its roles say with which channels and datasets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tocsin.errors import Forbidden
from tocsin.intake.dead_letters import DEAD_LETTERS, OWNED
from tocsin.model import Channel, Dataset, Privilege
from tocsin.service.tokens import Identity
from tocsin.storage.store.grants import Credentials, Grants, Kind, needed_for
from tocsin.storage.store.names import missing

_Named = TypeVar("_Named", Dataset, Channel)

_SEES_ALL = frozenset({"admin", "broker", "gateway"})


def credentials_of(identity: Identity | None) -> Credentials | None:
    """What the store remembers with a subscription. None: nobody knows who asks."""
    return None if identity is None else Credentials.of(identity.roles, "admin" in identity.scopes)


class Permissions:
    def __init__(self, grants: Grants) -> None:
        self._grants = grants

    @property
    def in_force(self) -> bool:
        """Do grants decide? Otherwise scopes do, alone."""
        return self._grants.rights.in_force

    def require(self, identity: Identity | None, privilege: Privilege, name: str) -> None:
        """Raise Forbidden, or NotFound if they may not even know that it is there."""
        self._grants.rights.require(credentials_of(identity), privilege, name)

    def require_subscribe(self, identity: Identity | None, channel: str) -> None:
        self.require(identity, *needed_for(channel))

    def require_publish(self, identity: Identity, dataset: str) -> None:
        if dataset == DEAD_LETTERS.name:
            raise Forbidden(
                OWNED,
                field="dataset",
                hint="publish to a dataset of your own; what does not fit it comes there by itself",
            )
        self.require(identity, "publish", dataset)

    def sees(self, identity: Identity, kind: Kind, name: str) -> bool:
        if identity.scopes & _SEES_ALL:
            return True
        return self._grants.rights.show(credentials_of(identity), kind, name)

    def require_visible(self, identity: Identity, kind: Kind, name: str) -> None:
        if not self.sees(identity, kind, name):
            raise missing(kind, name)

    def visible(self, identity: Identity, kind: Kind, things: Sequence[_Named]) -> list[_Named]:
        return [thing for thing in things if self.sees(identity, kind, thing.name)]
