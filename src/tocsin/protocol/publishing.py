"""A publisher and the cluster, or the broker that passes records on."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType

from tocsin.protocol.fields import about


class Rejection(Struct, frozen=True, omit_defaults=True):
    """A record that did not fit its dataset, and why. It is in the dataset's dead letters."""

    line: Annotated[int, about("where it stood in the request, from 1")]
    reason: str
    field: str | None = None


class Published(Struct, frozen=True):
    """What became of a publication: the records that fit are durable."""

    accepted: Annotated[int, about("how many were taken")]
    rejected: Annotated[int, about("how many did not fit")] = 0
    end: Annotated[int, about("the log position behind the last that was taken")] = 0
    errors: Annotated[list[Rejection], about("the first that did not fit, a hundred at most")] = []
    summed_up: (
        Annotated[int, about("so many of the rejected have no dead letter each: one counts them")]
        | UnsetType
    ) = UNSET


class Statements(Struct, forbid_unknown_fields=True):
    """Statements to run, one after the other."""

    sql: str
    subscriber: Annotated[
        str | None, about("whose subscriptions the statements are about; without it, the token's")
    ] = None


class StatementResult(Struct, frozen=True, omit_defaults=True):
    """What one statement did, or the rows it asked for."""

    statement: Annotated[str, about("which kind of statement it was")]
    message: str = ""
    columns: list[str] = []
    rows: list[list[Any]] = []


class StatementResults(Struct, frozen=True):
    """One for each statement, in order."""

    results: list[StatementResult]
