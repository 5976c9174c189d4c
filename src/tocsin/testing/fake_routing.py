"""The routed datasets of the fake cluster: a log in memory, filters, and streams of records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from tocsin.beginnings import checked
from tocsin.errors import InvalidInput, NotFound
from tocsin.model import FILTERED, Beginning, Column, Dataset, filtered_dataset
from tocsin.overlay.filters import as_text, matches
from tocsin.sql import parse_filter

ROUTED = Dataset("contract_routed", (Column("key", "STRING"), Column("n", "BIGINT")), routed=True)
PASSED_EVERY_S = 0.2


@dataclass
class Logged:
    """A record at [after, position)."""

    after: int
    position: int
    at: float
    record: dict[str, Any]


@dataclass
class RoutedLog:
    dataset: Dataset
    records: list[Logged] = field(default_factory=list)
    floor: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def end(self) -> int:
        return self.records[-1].position if self.records else self.floor

    def append(self, record: dict[str, Any]) -> Logged:
        size = 10 + len(msgspec.json.encode(record))  # positions are places, not numbers
        made = Logged(self.end, self.end + size, time.time(), record)
        self.records.append(made)
        self.changed.set()
        self.changed = asyncio.Event()
        return made

    def retire(self, floor: int) -> None:
        self.floor = max(self.floor, floor)

    def between(self, after: int, upto: int) -> list[Logged]:
        low = max(after, self.floor)
        return [logged for logged in self.records if low < logged.position <= upto]

    def canonical(self, where: str) -> str:
        return as_text(parse_filter(where, self.dataset))

    def filter_json(self, where: str) -> Any:
        return msgspec.to_builtins(parse_filter(where, self.dataset))

    def matching(self, where: str, after: int, upto: int) -> list[Logged]:
        asked = parse_filter(where, self.dataset)
        return [logged for logged in self.between(after, upto) if matches(asked, logged.record)]

    def marker(self, where: str, given: Any) -> int:
        if given is None:
            return self.end
        beginning = checked(msgspec.convert(given, Beginning))
        matching = self.matching(where, 0, self.end)
        if beginning.last is not None:
            return matching[-beginning.last :][0].after if matching else self.end
        since = time.time() - (beginning.seconds or 0.0)
        recent = [logged for logged in self.records if logged.at >= since]
        return recent[0].after if recent else self.end

    def results(self, where: str, after: int, upto: int, limit: int) -> dict[str, Any]:
        upto = min(upto, self.end)
        matching, upto = _first(limit, self.matching(where, after, upto), upto)
        results = [{"position": o.position, "at": o.at, "value": o.record} for o in matching]
        return {"floor": self.floor, "head": self.end, "upto": max(after, upto), "results": results}

    def range(self, after: int, upto: int, limit: int) -> dict[str, Any]:
        upto = min(upto, self.end)
        logged, upto = _first(limit, self.between(after, upto), upto)
        records = [{"position": o.position, "at": o.at, "record": o.record} for o in logged]
        return {"floor": self.floor, "upto": upto, "records": records}


def _first(limit: int, records: list[Logged], upto: int) -> tuple[list[Logged], int]:
    """At most so many records, and up to which position these are all."""
    return (
        (records, upto) if len(records) <= limit else (records[:limit], records[limit - 1].position)
    )


class FakeRouting:
    """All routed datasets, by name."""

    def __init__(self) -> None:
        self.logs = {ROUTED.name: RoutedLog(ROUTED)}
        self.closed = False

    def of(self, channel: str) -> RoutedLog | None:
        name = filtered_dataset(channel)
        if name is None:
            return None
        if name not in self.logs:
            raise NotFound(f"there is no dataset {name}", field="dataset")
        return self.logs[name]

    def where(self, channel: str, given: Any) -> str:
        """The canonical text of a filter."""
        log = self.of(channel)
        assert log is not None
        named = {"where": given[0]} if isinstance(given, list) and given else dict(given or {})
        where = named.pop("where", "")
        if named or not isinstance(where, str):
            raise InvalidInput(f"{FILTERED}… takes where", field="where")
        return log.canonical(where)

    def stream(self) -> StreamingResponse:
        return StreamingResponse(self._lines(), media_type="application/x-ndjson")

    async def _lines(self) -> AsyncIterator[bytes]:
        positions: dict[str, int] = {}
        while not self.closed:
            lines: list[dict[str, Any]] = []
            for name in [name for name in positions if name not in self.logs]:
                del positions[name]
                lines.append({"dataset": name, "left": True})
            changes = []
            for name, log in self.logs.items():
                if name not in positions:
                    positions[name] = log.end
                    lines.append({"dataset": name, "entered": log.end})
                for logged in log.between(positions[name], log.end):
                    place = {"after": logged.after, "position": logged.position, "at": logged.at}
                    lines.append({"dataset": name, **place, "record": logged.record})
                positions[name] = log.end
                changes.append(asyncio.ensure_future(log.changed.wait()))
            if not lines:
                lines = [{"dataset": name, "passed": end} for name, end in positions.items()]
            yield b"".join(msgspec.json.encode(line) + b"\n" for line in lines) or b"\n"
            await asyncio.wait(
                changes or [asyncio.ensure_future(asyncio.sleep(PASSED_EVERY_S))],
                timeout=PASSED_EVERY_S,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for change in changes:
                change.cancel()
