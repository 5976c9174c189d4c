"""How the logs are laid out and what they, the broker, the database and its poller cost.

Costs are seconds of whoever does the work; defaults are guesses of the right size until a live
system has been measured.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tocsin.errors import SettingError


class Logs(Struct, frozen=True, kw_only=True):
    """`each`: a copy in the log of every consumer. `shared`: one in a log that all read, and a
    reference in the log of every consumer.

    A consumer notices that a record was not written into its log by a `gap`, when a later one is
    there (the paper's way), or by a `number`, a reference that is written in the record's place.
    The last gaps are shown by a head mark: to a log that is behind for `mark_s`; if that is 0, to
    all when everything is published.

    With `turn_s` the broker works in turns (as micro-batches do): it takes up all that there is,
    and what becomes of it is there when the turn ends.
    """

    layout: Literal["each", "shared"] = "each"
    notice: Literal["gap", "number"] = "gap"
    retention_bytes: int = 0  # of each consumer's log; of the shared one: as many as all; 0: no end
    reference_bytes: int = 16  # what points at a record, or stands for one that is not there
    turn_s: float = 0.0  # to take up what there is; 0: the broker takes record by record
    broker_s: float = 50e-6  # to read, match and decide about one record
    commit_s: float = 0.0  # until it is there to be read; the broker goes on meanwhile
    log_write_s: float = 20e-6  # to append one entry to a log
    log_read_s: float = 1e-3  # to fetch what is new in a log
    log_bytes_per_s: float = 100e6  # of a fetch
    database_write_s: float = 1e-3  # to insert one row; the broker waits for it
    database_read_s: float = 0.5e-3  # a query, whatever it asks for
    database_row_s: float = 50e-6  # each row of its answer
    poll_s: float = 0.01  # the poller looks into the missing topic that often
    batch: int = 100  # and takes so many requests at most
    mark_s: float = 0.0  # a log that is behind for so long gets a head mark

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name.endswith("_s") and name != "log_bytes_per_s" and not 0 <= value < 1e9:
                raise SettingError(f"{name} is {value}", field=name, hint="0 or more seconds")
            if name.endswith("_bytes") and not 0 <= value < 2**63:
                raise SettingError(f"{name} is {value}", field=name, hint="0 or more bytes")
        if not 0 < self.log_bytes_per_s < float("inf"):
            message = f"log_bytes_per_s is {self.log_bytes_per_s}"
            raise SettingError(message, field="log_bytes_per_s", hint="more than 0")
        if self.batch < 1:
            raise SettingError(f"batch is {self.batch}", field="batch", hint="1 or more")
