"""Where the store relies on positions of the publication log, and on times that were written down.
Knows no Spark and no clock."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.errors import SettingError
from tocsin.model import Channel, Dataset
from tocsin.storage.log import PublicationLog, Reader
from tocsin.storage.store.store import Store
from tocsin.storage.tables import TableFiles


def open_dataset(
    log: PublicationLog, store: Store, tables: TableFiles, dataset: Dataset, reader: Reader
) -> None:
    """Open a dataset's log, unless it ends before what was stored or looked at (what is published
    below that would never be seen), or begins behind what was stored."""
    end = log.open_dataset(dataset.name, dataset.primary_key)
    stored = tables.stored_end(dataset)
    seen = store.progress.highest(dataset.name)
    if end < max(stored, seen):
        raise SettingError(
            f"the log ends at {end} of dataset {dataset.name}, which is stored up to {stored}"
            f" and was looked at up to {seen}: it is another log, or it has lost records",
            field="log",
            hint="name the log that this store was filled from, or begin with a new store",
        )
    first = reader.first_position(dataset.name) if stored else 0
    if stored < first:
        raise SettingError(
            f"the log of dataset {dataset.name} begins at {first}, and its stored part ends at"
            f" {stored}: what lies between was stored after the backup that this store was"
            " restored from",
            field="store",
            hint="restore the data directory and the log from the same backup as the store",
        )


def counts_from(ends: Mapping[str, int], channel: Channel) -> int:
    """Where a subscription begins that is asked for while the log ends there: whatever is published
    from then on counts. Of several NEW datasets a run's window does."""
    new = channel.new[0] if len(channel.new) == 1 else ""
    return ends.get(new, 0)


def newest_time(store: Store) -> float:
    """That the catalog and the channels' windows know: whatever is written down now comes later."""
    made = [dataset.created_at for dataset in store.catalog.datasets()]
    made += [channel.created_at for channel in store.catalog.channels()]
    return max([store.progress.latest_us() / 1e6, *made])
