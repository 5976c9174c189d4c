"""Whose the Delta tables at an address are: they bear the mark of one store, like everything else
that belongs to it, and a store says where its tables lie.
"""

from __future__ import annotations

from tocsin.errors import SettingError
from tocsin.storage import identity
from tocsin.storage.identity import Mark, belongs_to_another
from tocsin.storage.store.store import Store
from tocsin.storage.tables.address import FIELD
from tocsin.storage.tables.place import Place


def claim(place: Place, store: Store) -> None:
    """Mark the address if nobody has; SettingError if it, or the store, belongs to another."""
    shown = place.address.shown
    theirs = mark_at(place)
    if theirs is not None and theirs.id != store.id:
        raise belongs_to_another(f"the tables at {shown}", store.mark, theirs, FIELD)
    if theirs is None:
        _refuse_elsewhere(store, shown)
        tables = place.folders()
        if tables:
            raise SettingError(
                f"there is something at {shown} ({tables[0]}), and the store {store.mark} has never"
                " written there",
                field=FIELD,
                hint="name a folder that nobody uses, or the store that wrote there",
            )
        put_mark(place, store.mark)
    if store.tables() != shown:
        store.put_tables(shown)


def _refuse_elsewhere(store: Store, shown: str) -> None:
    known = store.tables()
    if known:
        raise SettingError(
            f"the datasets of the store {store.mark} are tables at {known}, not at {shown}",
            field=FIELD,
            hint=f"start with --tables {known}; who moves them takes the file `identity` along",
        )
    if any(is_live for _, is_live in store.files.paths()):
        raise SettingError(
            f"the datasets of the store {store.mark} are Parquet files in its data directory",
            field=FIELD,
            hint="leave `tables` empty: a store keeps its datasets where they began",
        )


def require_none(store: Store) -> None:
    """SettingError if the store's datasets are tables somewhere."""
    known = store.tables()
    if known:
        raise SettingError(
            f"the datasets of the store {store.mark} are tables at {known}",
            field=FIELD,
            hint=f"start with --tables {known}",
        )


def mark_at(place: Place) -> Mark | None:
    raw = place.read(identity.NAME)
    return None if raw is None else Mark.decode(raw)


def put_mark(place: Place, mark: Mark) -> None:
    place.write(identity.NAME, mark.now().encode())
