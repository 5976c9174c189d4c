"""Which fields of a channel's results hold attachments: brokers look for them there.

Known by their type, of channels that read a dataset with attachments. The columns of that dataset's
primary key, where a result has them, say which story an attachment is the newest version of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tocsin.model import Column, Dataset, attachments_of
from tocsin.spark.channels.compile import CompiledChannel
from tocsin.spark.records import ATTACHED
from tocsin.sql import by_lower


def with_attachments(
    compiled: CompiledChannel, columns: Sequence[Column], datasets: Mapping[str, Dataset]
) -> CompiledChannel:
    """The same, with what its results are known to hold."""
    read = [datasets[name] for name in compiled.channel.reads if attachments_of(datasets[name])]
    shown = by_lower(column.name for column in columns)
    attached = tuple(column.name for column in columns if column.type == ATTACHED.upper())
    if not read or not attached:
        return compiled
    keys = [[shown.get(name.lower()) for name in dataset.primary_key] for dataset in read]
    whole = [tuple(name for name in key if name) for key in keys if None not in key]
    channel = msgspec.structs.replace(
        compiled.channel,
        attachments=attached,
        keys=whole[0] if len(whole) == len(read) == 1 else (),
    )
    return msgspec.structs.replace(compiled, channel=channel)
