"""The reference matcher: what a channel means, in plain Python and nested loops.

It shares no code with the product. A `Question` is a query of a small grammar; `sql` writes it as
its author would, `answers` says what one parameter set gets for one batch of new records. A
parameter may be OPEN there, unless it is in `needed`: the conditions that name it are then true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]
Row = tuple[Record, Record | None]  # a report, and a place when one is joined
Test = Callable[[Row, Record], bool]

OPEN = {"any": True}

REPORTS = {
    "id": "INT",
    "kind": "STRING",
    "sev": "INT",
    "lat": "DOUBLE",
    "lon": "DOUBLE",
    "day": "DATE",
}
PLACES = {"pid": "INT", "kind": "STRING", "plat": "DOUBLE", "plon": "DOUBLE", "reach": "DOUBLE"}
PARAMETERS = {
    "kind": "STRING",
    "lo": "INT",
    "hi": "INT",
    "lat": "DOUBLE",
    "lon": "DOUBLE",
    "km": "DOUBLE",
    "day": "DATE",
}


def distance_km(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """By the angle between two vectors: another formula than the product's."""

    def vector(lat: float, lon: float) -> tuple[float, float, float]:
        a, o = math.radians(lat), math.radians(lon)
        return math.cos(a) * math.cos(o), math.cos(a) * math.sin(o), math.sin(a)

    (a, b, c), (d, e, f) = vector(lat1, lon1), vector(lat2, lon2)
    across = math.hypot(b * f - c * e, c * d - a * f, a * e - b * d)
    return 6371.0088 * math.atan2(across, a * d + b * e + c * f)


def is_near(*given: float | None) -> bool:
    lat1, lon1, lat2, lon2, km = given
    if lat1 is None or lon1 is None or lat2 is None or lon2 is None or km is None:
        return False
    if (lat1, lon1) == (lat2, lon2):
        return km >= 0
    return distance_km(lat1, lon1, lat2, lon2) <= km


def compare(left: Any, sign: str, right: Any) -> bool:
    if left is None or right is None:
        return False
    return bool(
        {"=": left == right, "<>": left != right, "<": left < right, "<=": left <= right,
         ">": left > right, ">=": left >= right}[sign]
    )  # fmt: skip


def _place(row: Row, column: str) -> Any:
    return row[1][column] if row[1] is not None else None


CONDITIONS: dict[str, Test] = {
    "r.kind = :kind": lambda row, p: compare(row[0]["kind"], "=", p["kind"]),
    "near(r.lat, r.lon, :lat, :lon, :km)": lambda row, p: is_near(
        row[0]["lat"], row[0]["lon"], p["lat"], p["lon"], p["km"]
    ),
    "near(:lat, :lon, r.lat, r.lon, 250)": lambda row, p: is_near(
        row[0]["lat"], row[0]["lon"], p["lat"], p["lon"], 250
    ),
    "r.sev >= :lo": lambda row, p: compare(row[0]["sev"], ">=", p["lo"]),
    "r.sev < :hi": lambda row, p: compare(row[0]["sev"], "<", p["hi"]),
    ":lo < r.sev": lambda row, p: compare(row[0]["sev"], ">", p["lo"]),
    "r.sev BETWEEN :lo AND :hi": lambda row, p: (
        compare(row[0]["sev"], ">=", p["lo"]) and compare(row[0]["sev"], "<=", p["hi"])
    ),
    "r.sev + 1 <= :hi - 1": lambda row, p: (
        row[0]["sev"] is not None and compare(row[0]["sev"] + 1, "<=", p["hi"] - 1)
    ),
    "r.day >= :day": lambda row, p: compare(row[0]["day"], ">=", p["day"]),
    "r.kind > :kind": lambda row, p: compare(row[0]["kind"], ">", p["kind"]),
    "r.sev <> 2": lambda row, p: compare(row[0]["sev"], "<>", 2),
    "(r.kind = :kind OR r.sev = :lo)": lambda row, p: (
        compare(row[0]["kind"], "=", p["kind"]) or compare(row[0]["sev"], "=", p["lo"])
    ),
    "EXISTS (SELECT 1 FROM places AS q WHERE q.kind = :kind)": lambda row, p: any(
        compare(place["kind"], "=", p["kind"]) for place in p["__places"]
    ),
}
JOINS: dict[str, dict[str, Test]] = {
    "": {},
    "JOIN places AS p ON": {
        "p.kind = r.kind": lambda row, p: compare(_place(row, "kind"), "=", row[0]["kind"]),
        "p.pid >= :lo": lambda row, p: compare(_place(row, "pid"), ">=", p["lo"]),
        "near(r.lat, r.lon, p.plat, p.plon, 300)": lambda row, p: is_near(
            row[0]["lat"], row[0]["lon"], _place(row, "plat"), _place(row, "plon"), 300
        ),
        "near(r.lat, r.lon, p.plat, p.plon, :km)": lambda row, p: is_near(
            row[0]["lat"], row[0]["lon"], _place(row, "plat"), _place(row, "plon"), p["km"]
        ),
        "near(r.lat, r.lon, plat, plon, reach)": lambda row, p: is_near(
            row[0]["lat"],
            row[0]["lon"],
            _place(row, "plat"),
            _place(row, "plon"),
            _place(row, "reach"),
        ),
    },
}
JOINS["LEFT JOIN places AS p ON"] = {
    on: JOINS["JOIN places AS p ON"][on] for on in ("p.kind = r.kind", "p.pid >= :lo")
}
SHAPES = ("plain", "grouped", "distinct", "top", "counted", "ranked", "union")


def parameters_of(text: str) -> set[str]:
    return set(re.findall(r":(\w+)", text))


def holds(text: str, test: Test, row: Row, given: Record) -> bool:
    """A condition as a parameter set reads it."""
    if all(given[name] != OPEN for name in parameters_of(text)):
        return test(row, given)
    if "BETWEEN" in text:
        sev, lo, hi = row[0]["sev"], given["lo"], given["hi"]
        above = lo == OPEN or compare(sev, ">=", lo)
        return above and (hi == OPEN or compare(sev, "<=", hi))
    return True


@dataclass(frozen=True)
class Question:
    """`shows`: its answers show parameters, and its groups are weighed by one."""

    join: str
    on: tuple[str, ...]
    conditions: tuple[str, ...]
    shape: str
    others: tuple[str, ...] = ()  # the conditions of a union's second half
    shows: bool = True

    def sql(self) -> str:
        extra = ", p.pid" if self.join else ""
        plain = f"r.id, r.kind, r.sev{', :lo AS asked' if self.shows else ''}{extra}"
        match self.shape:
            case "plain":
                return self._select(plain, self.conditions)
            case "grouped":
                columns = f"r.kind, {':hi AS hi, ' if self.shows else ''}count(*) AS n"
                grouped = self._select(f"{columns}, max(r.sev) AS worst", self.conditions)
                return f"{grouped} GROUP BY r.kind{' HAVING count(*) >= :lo' * self.shows}"
            case "distinct":
                return self._select("DISTINCT r.kind, r.sev", self.conditions)
            case "top":
                query = self._select(plain, self.conditions)
                return f"{query} ORDER BY r.sev DESC, r.id{extra} LIMIT 2"
            case "ranked":
                order = f"row_number() OVER (ORDER BY r.sev DESC, r.id{extra}) AS rank"
                return self._select(f"r.id, {order}", self.conditions)
            case "counted":
                return self._select("count(*) AS n, min(r.sev) AS least", self.conditions)
            case _:
                both = (self.conditions, self.others)
                halves = (self._select(plain, conditions) for conditions in both)
                return " UNION ALL ".join(halves)

    def needed(self) -> set[str]:
        """The parameters that cannot be left open."""
        every = self.conditions + self.others
        weighed = [text for text in every if "OR" in text or "EXI" in text]
        if self.join.startswith("LEFT"):
            weighed += self.on
        if self.shows and self.shape in ("plain", "top", "union", "grouped"):
            weighed.append(":lo")
        if self.shows and self.shape == "grouped":
            weighed.append(":hi")
        return parameters_of(" ".join(weighed))

    def used(self) -> set[str]:
        return parameters_of(self.sql())

    def _select(self, columns: str, conditions: tuple[str, ...]) -> str:
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        joined = f"{self.join} {' AND '.join(self.on)}" if self.join else ""
        return " ".join(("SELECT", columns, "FROM NEW reports AS r", joined)) + where

    def answers(self, reports: list[Record], places: list[Record], given: Record) -> list[Record]:
        given = {**given, "__places": places}
        rows = self._rows(reports, places, given, self.conditions)
        match self.shape:
            case "plain":
                return [self._plain(row, given) for row in rows]
            case "grouped":
                return self._grouped(rows, given)
            case "distinct":
                pairs = {(row[0]["kind"], row[0]["sev"]) for row in rows}
                return [{"kind": kind, "sev": sev} for kind, sev in pairs]
            case "top":
                rows.sort(key=_rank)
                return [self._plain(row, given) for row in rows[:2]]
            case "ranked":
                rows.sort(key=_rank)
                return [{"id": row[0]["id"], "rank": n} for n, row in enumerate(rows, start=1)]
            case "counted":
                sevs = [row[0]["sev"] for row in rows if row[0]["sev"] is not None]
                return [{"n": len(rows), "least": min(sevs, default=None)}]
            case _:
                rows += self._rows(reports, places, given, self.others)
                return [self._plain(row, given) for row in rows]

    def _rows(
        self, reports: list[Record], places: list[Record], given: Record, names: tuple[str, ...]
    ) -> list[Row]:
        joined: list[Row] = []
        for report in reports:
            if not self.join:
                joined.append((report, None))
                continue
            pairs: list[Row] = [(report, place) for place in places]
            rows = [row for row in pairs if self._all(JOINS[self.join], self.on, row, given)]
            joined += rows or ([(report, None)] if self.join.startswith("LEFT") else [])
        return [row for row in joined if self._all(CONDITIONS, names, row, given)]

    def _all(self, tests: dict[str, Test], names: tuple[str, ...], row: Row, given: Record) -> bool:
        return all(holds(name, tests[name], row, given) for name in names)

    def _plain(self, row: Row, given: Record) -> Record:
        result = {name: row[0][name] for name in ("id", "kind", "sev")}
        if self.shows:
            result["asked"] = given["lo"]
        return result | {"pid": _place(row, "pid")} if self.join else result

    def _grouped(self, rows: list[Row], given: Record) -> list[Record]:
        answers = []
        for kind in {row[0]["kind"] for row in rows}:
            sevs = [row[0]["sev"] for row in rows if row[0]["kind"] == kind]
            known = [sev for sev in sevs if sev is not None]
            if not self.shows or len(sevs) >= given["lo"]:
                shown = {"hi": given["hi"]} if self.shows else {}
                worst = max(known, default=None)
                answers.append({"kind": kind, **shown, "n": len(sevs), "worst": worst})
        return answers


def _rank(row: Row) -> tuple[Any, ...]:
    """ORDER BY sev DESC, id, pid as Spark reads it: NULL is the smallest value."""
    sev, pid = row[0]["sev"], _place(row, "pid")
    return (sev is None, -(sev or 0), row[0]["id"], pid is not None, pid or 0)
