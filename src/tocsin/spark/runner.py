"""Channels as Spark runs them: compiled, tried out, and kept ready with their parameter sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from pyspark.sql import SparkSession

from tocsin.errors import InvalidInput
from tocsin.model import Arguments, Channel, Dataset
from tocsin.spark.answering import Answering, Bury, Prepared
from tocsin.spark.channel_runs import ChannelRuns
from tocsin.spark.channels import (
    CompiledChannel,
    Mask,
    ParameterTable,
    Trials,
    analyse,
    check_open,
    compile_channel,
    mask_of,
    with_attachments,
)
from tocsin.spark.trial import SparkQueries
from tocsin.sql import CreateChannel
from tocsin.storage.store.runs import Committed
from tocsin.storage.store.store import Store


class _Ready(NamedTuple):
    """A prepared channel, as Spark knows it."""

    compiled: CompiledChannel
    parameters: ParameterTable
    checked: set[Mask]


class Runner(ChannelRuns):
    """Knows how to run every channel that was prepared."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        *,
        on_commit: Callable[[Channel, Committed], None],
        bury: Bury,
        result_limit_bytes: int = 4 * 1024 * 1024,
        patience_s: float = 0.0,
    ) -> None:
        self._queries = SparkQueries(spark)
        answering = Answering(
            self._queries,
            store,
            bury,
            result_limit_bytes=result_limit_bytes,
            patience_s=patience_s,
        )
        super().__init__(store, answering, on_commit=on_commit)
        self._spark = spark
        self._trials: dict[str, Trials] = {}

    def compile(
        self, channel: CreateChannel | Channel, datasets: Mapping[str, Dataset]
    ) -> CompiledChannel:
        """Compile and let Spark analyse and plan it; a StatementError says what is wrong."""
        compiled = compile_channel(channel, datasets)
        columns = analyse(self._spark, compiled, datasets)
        return with_attachments(compiled, columns, datasets)

    def prepare(self, channel: Channel, compiled: CompiledChannel) -> None:
        self.add(Prepared(channel, compiled, ParameterTable(self._spark, compiled)))

    def check_open(self, name: str, mask: Mask) -> None:
        """Refuse open parameters with which Spark cannot run the channel."""
        ready = self._ready(name)
        if ready is not None and mask not in ready.checked:
            check_open(self._spark, ready.compiled, mask)
            ready.checked.add(mask)

    def vouches(self, name: str, arguments: Arguments) -> bool:
        """Whether it is known, without asking Spark, that the channel can compute with these."""
        ready = self._ready(name)
        if ready is None:
            return True
        mask = mask_of(arguments)
        return (not mask or mask in ready.checked) and self._trials_of(ready).vouches(arguments)

    def first_refused(
        self, name: str, sets: Sequence[Arguments]
    ) -> tuple[int, InvalidInput] | None:
        """The first arguments that the channel's query cannot compute with, and why."""
        ready = self._ready(name)
        if ready is None:
            return None
        return self._trials_of(ready).first_refused(self._spark, sets)

    def _trials_of(self, ready: _Ready) -> Trials:
        name = ready.compiled.channel.name
        trials = self._trials.get(name)
        if trials is None or trials.compiled is not ready.compiled:
            trials = self._trials[name] = Trials(ready.compiled)
        return trials

    def forget(self, name: str) -> None:
        ready = self._ready(name)
        self.remove(name)
        self._queries.forget(name)
        self._trials.pop(name, None)
        if ready is not None:
            ready.parameters.close()

    def compiled(self, name: str) -> CompiledChannel | None:
        ready = self._ready(name)
        return None if ready is None else ready.compiled

    def describe(self, name: str) -> list[tuple[str, str]]:
        ready = self._ready(name)
        if ready is None:
            return [("state", "it cannot run")]
        return ready.compiled.describe(ready.parameters.masks())

    def _ready(self, name: str) -> _Ready | None:
        prepared = self._prepared.get(name)
        if prepared is None:
            return None
        return _Ready(
            cast(CompiledChannel, prepared.compiled),
            cast(ParameterTable, prepared.parameters),
            prepared.checked,
        )
