"""Where the store relies on positions of the publication log. Knows no Spark and no clock."""

from __future__ import annotations

from tocsin.errors import SettingError
from tocsin.model import Channel, Dataset
from tocsin.storage.log import PublicationLog
from tocsin.storage.store.store import Store


def open_dataset(log: PublicationLog, store: Store, dataset: Dataset) -> None:
    """Open a dataset's log, unless it ends before what was stored or looked at: what is published
    below that would never be seen."""
    end = log.open_dataset(dataset.name, dataset.primary_key)
    stored = store.files.stored_end(dataset.name)
    seen = store.progress.highest(dataset.name)
    if end < max(stored, seen):
        raise SettingError(
            f"the log ends at {end} of dataset {dataset.name}, which is stored up to {stored}"
            f" and was looked at up to {seen}: it is another log, or it has lost records",
            field="log",
            hint="name the log that this store was filled from, or begin with a new store",
        )


def counts_from(log: PublicationLog, channel: Channel) -> int:
    """Where a subscription that is made now begins: whatever is published from now on counts. Of
    several NEW datasets a run's window does."""
    new = channel.new[0] if len(channel.new) == 1 else ""
    return log.ends().get(new, 0)
