"""Random values and conditions over the columns in scope, with and without parameters.

Kinds of values are single letters: B boolean, I int, L bigint, F float, D double, M decimal, S
string, T timestamp, Y date; A, R and P are an array of strings, a struct and a map.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

Scope = list[tuple[str, str]]
"""What may be named: a column as the query writes it, and its kind."""

KIND_OF = {
    "BOOLEAN": "B",
    "INT": "I",
    "BIGINT": "L",
    "FLOAT": "F",
    "DOUBLE": "D",
    "DECIMAL(8,2)": "M",
    "STRING": "S",
    "TIMESTAMP": "T",
    "DATE": "Y",
    "ARRAY<STRING>": "A",
    "STRUCT<a:INT,Label:STRING>": "R",
    "MAP<STRING,INT>": "P",
}
SCALARS = "BILFDMSTY"
NUMBERS = "ILFDM"
PARAMETERS = {
    "B": ["pb"],
    "I": ["pi", "pj"],
    "L": ["pl"],
    "F": ["pf"],
    "D": ["pd"],
    "M": ["pm"],
    "S": ["ps", "pText"],
    "T": ["pt"],
    "Y": ["py"],
}
LITERALS = {
    "B": ["true", "false"],
    "I": ["0", "1", "2"],
    "L": ["2L", "-5L"],
    "F": ["CAST(0.25 AS FLOAT)"],
    "D": ["1.5D", "CAST(0.25 AS DOUBLE)"],
    "M": ["1.5", "12.25"],
    "S": ["'fire'", "'it\\'s'", "'a\"b\\\\c'", '"it\'s"', "'日本'", "''", "'it' '''s'"],
    "T": ["TIMESTAMP '2026-01-01 10:00:00'"],
    "Y": ["DATE '2026-01-02'"],
}
COMPARED = ["=", "=", "=", "<>", "!=", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM"]


class Expressions:
    """Draws, and notes which features it used."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.features: set[str] = set()

    def tag(self, feature: str) -> None:
        self.features.add(feature)

    def pick(self, values: Sequence[str]) -> str:
        return self.draw.choice(values)

    def chance(self, probability: float) -> bool:
        return self.draw.random() < probability

    def parameter(self, kind: str) -> str:
        self.tag(f"parameter:{kind}")
        return f":{self.pick(PARAMETERS[kind])}"

    def column(self, scope: Scope, kinds: str) -> tuple[str, str] | None:
        fitting = [column for column in scope if column[1] in kinds]
        return self.draw.choice(fitting) if fitting else None

    def value(self, scope: Scope, kind: str, depth: int = 2) -> str:
        """An expression of this kind."""
        roll = self.draw.random()
        if depth > 0 and roll < 0.25:
            return self._computed(scope, kind, depth - 1)
        column = self.column(scope, kind)
        if column is not None and roll < 0.8:
            return column[0]
        return self.parameter(kind) if roll < 0.93 else self.pick(LITERALS[kind])

    def _computed(self, scope: Scope, kind: str, depth: int) -> str:
        def deeper(of: str = kind) -> str:
            return self.value(scope, of, depth)

        choices = [
            lambda: f"coalesce({deeper()}, {deeper()})",
            lambda: f"CASE WHEN {self.condition(scope, 0)} THEN {deeper()} ELSE {deeper()} END",
            lambda: f"if({self.condition(scope, 0)}, {deeper()}, NULL)",
            lambda: f"nullif({deeper()}, {deeper()})",
        ]
        if kind in NUMBERS:
            choices += [
                lambda: f"({deeper()} {self.pick('+-')} {deeper()})",
                lambda: f"-({deeper()})",
                lambda: f"greatest({deeper()}, {deeper()})",
            ]
        if kind == "I":
            choices += [
                lambda: f"length({deeper('S')})",
                lambda: f"({deeper()} % 3)",
                lambda: f"year({deeper('Y')})",
                lambda: f"CAST({deeper('D')} AS INT)",
            ]
        if kind == "D":
            choices += [lambda: f"({deeper('I')} / 4)", lambda: f"CAST({deeper('M')} AS DOUBLE)"]
        if kind == "S":
            choices += [
                lambda: f"concat({deeper()}, '-', {deeper()})",
                lambda: f"({deeper()} || {deeper()})",
                lambda: f"upper({deeper()})",
                lambda: f"substring({deeper()}, 2)",
                lambda: f"CAST({deeper(self.pick('ILMY'))} AS STRING)",
                lambda: f"replace({deeper()}, 'f', {deeper()})",
            ]
        if kind == "Y":
            choices += [lambda: f"date_add({deeper()}, {deeper('I')})"]
        if kind == "T":
            choices += [lambda: f"({deeper()} + INTERVAL 1 HOUR)"]
        if kind == "B":
            choices += [lambda: f"({self.condition(scope, 0)})"]
        self.tag("computed")
        return self.draw.choice(choices)()

    def comparison(self, scope: Scope) -> str:
        """A column against a parameter or another column, of the same kind or one near to it."""
        column = self.column(scope, SCALARS)
        if column is None:
            return f"{self.parameter('I')} > 1"
        name, kind = column
        other = kind
        if self.chance(0.25):
            near = {"Y": "T", "T": "Y", "S": "I", "B": "B"}.get(kind, NUMBERS)
            other = self.pick(near)
            if other != kind:
                self.tag("mixed types")
        right = self.parameter(other) if self.chance(0.75) else self.value(scope, other, 1)
        roll = self.draw.random()
        if roll < 0.55:
            sign = self.pick(COMPARED)
            self.tag("null-safe" if "=>" in sign or "IS" in sign else "comparison")
            return f"{name} {sign} {right}" if self.chance(0.8) else f"{right} {sign} {name}"
        if roll < 0.7:
            self.tag("between")
            word = "NOT BETWEEN" if self.chance(0.2) else "BETWEEN"
            return f"{name} {word} {right} AND {self.parameter(kind)}"
        if roll < 0.85:
            self.tag("in list")
            more = "NULL" if self.chance(0.2) else self.pick(LITERALS[kind])
            return f"{name} {self.pick(['IN', 'NOT IN'])} ({right}, {more})"
        if kind == "S":
            self.tag("like")
            if self.chance(0.2):
                return f"{name} RLIKE '^f.*d?$'"
            return f"{name} {self.pick(['LIKE', 'NOT LIKE', 'ILIKE'])} {self._pattern()}"
        self.tag("is null")
        return f"{name} IS {self.pick(['NULL', 'NOT NULL'])}"

    def _pattern(self) -> str:
        return self.parameter("S") if self.chance(0.6) else self.pick(["'f%'", "'%o_d'", "'\\\\%'"])

    def nested(self, scope: Scope) -> str | None:
        """A condition on a part of an array, a struct or a map."""
        column = self.column(scope, "ARP")
        if column is None:
            return None
        name, kind = column
        self.tag("nested types")
        if kind == "A":
            return self.pick(
                [
                    f"array_contains({name}, {self.parameter('S')})",
                    f"{name}[0] = {self.parameter('S')}",
                    f"exists({name}, x -> x = {self.parameter('S')})",
                    f"size({name}) > {self.parameter('I')}",
                    f"cardinality(filter({name}, x -> x <> {self.parameter('S')})) = 1",
                    f"{name} = array('fire')",
                ]
            )
        if kind == "R":
            return self.pick(
                [f"{name}.a = {self.parameter('I')}", f"{name}.label > {self.parameter('S')}"]
            )
        return self.pick(
            [f"{name}['a'] >= {self.parameter('I')}", f"map_contains_key({name}, 'b')"]
        )

    def nearness(self, scope: Scope) -> str | None:
        names = {text.rpartition(".")[2]: text for text, _ in scope}
        ours, theirs = [(names.get(a), names.get(o)) for a, o in (("lat", "lon"), ("plat", "plon"))]
        self.tag("near")
        if all(ours) and all(theirs) and self.chance(0.5):
            far = self.pick([":pKm", "20", names.get("reach", "5")])
            return f"near({ours[0]}, {ours[1]}, {theirs[0]}, {theirs[1]}, {far})"
        at = ours if all(ours) else theirs
        if not all(at):
            return None
        return f"near({at[0]}, {at[1]}, :pLat, :pLon, {self.pick([':pKm', '20'])})"

    def condition(self, scope: Scope, depth: int = 2) -> str:
        roll = self.draw.random()
        if depth > 0 and roll < 0.12:
            self.tag("or")
            return f"({self.condition(scope, depth - 1)} OR {self.condition(scope, depth - 1)})"
        if depth > 0 and roll < 0.17:
            return f"NOT ({self.condition(scope, depth - 1)})"
        if depth == 1 and roll < 0.22:  # not outermost, where each would be a condition by itself
            return f"({self.condition(scope, 0)} AND {self.condition(scope, 0)})"
        if roll < 0.3:
            return self.nearness(scope) or self.comparison(scope)
        if roll < 0.4:
            return self.nested(scope) or self.comparison(scope)
        return self.comparison(scope)
