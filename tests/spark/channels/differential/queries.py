"""Random channel queries over the whole language: text as an author would write it."""

# ruff: noqa: S608 - writing queries is what it is for

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from .data import PLACES, REPORTS
from .expressions import KIND_OF, SCALARS, Expressions, Scope

Outputs = list[tuple[str, str]]
"""Names and kinds of a query's columns."""

OPEN, CLOSE = "\x01", "\x02"
"""Around each condition that may fall away when one of its parameters is left open."""


@dataclass(frozen=True)
class Asked:
    """`ordered`: its ORDER BY leaves nothing open. `marked` has conditions between marks."""

    marked: str
    ordered: bool
    features: frozenset[str]

    @property
    def text(self) -> str:
        return self.marked.replace(OPEN, "").replace(CLOSE, "")


@dataclass
class Source:
    text: str
    scope: Scope
    keys: list[str] = field(default_factory=list)  # together they tell rows apart
    plain: bool = True  # every column may be named twice over, by its table and alone


class Queries(Expressions):
    def __init__(self, draw: Random) -> None:
        super().__init__(draw)
        self.names = 0

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    # Sources

    def dataset(self, stored: bool = False) -> Source:
        table = PLACES if stored else REPORTS
        alias = self.fresh("p" if stored else "r")
        scope = [(f"{alias}.{self.cased(c.name)}", KIND_OF[c.type]) for c in table.columns]
        word = "places" if stored else "NEW reports"
        key = f"{alias}.{'pid' if stored else 'id'}"
        return Source(f"{word} {self.pick(['AS ', ''])}{alias}", scope, [key])

    def cased(self, name: str) -> str:
        """Names are matched whatever their capitals."""
        if name.lower() != name:
            self.tag("capitals")
        return name.upper() if self.chance(0.05) else name

    def derived(self, depth: int) -> Source:
        self.tag("derived table")
        text, outputs = self.select(depth - 1, simple=self.chance(0.7))
        alias = self.fresh("d")
        return Source(f"({text}) AS {alias}", [(f"{alias}.{n}", k) for n, k in outputs])

    def source(self, depth: int, first: bool) -> Source:
        roll = self.draw.random()
        if depth > 0 and roll < 0.15:
            return self.derived(depth)
        return self.dataset(stored=not first if roll < 0.9 else first)

    def joined(self, depth: int) -> Source:
        """FROM: one source, or several in every kind of join."""
        source = self.source(depth, first=True)
        for _ in range(self.draw.choices([0, 1, 2], [5, 5, 1])[0]):
            source = self.join(source, depth)
        roll = self.draw.random()
        tags = self.column(source.scope, "A")
        if roll < 0.06 and tags:
            self.tag("lateral view")
            alias, outer = self.fresh("v"), self.pick(["", "OUTER "])
            view = f"LATERAL VIEW {outer}posexplode({tags[0]}) {alias} AS at{alias}, tag{alias}"
            columns = [(f"{alias}.tag{alias}", "S"), (f"{alias}.at{alias}", "I")]
            keys = [*source.keys, f"{alias}.at{alias}"] if source.keys else []
            return Source(f"{source.text} {view}", source.scope + columns, keys, plain=False)
        if roll < 0.1 and tags:
            self.tag("lateral explode")
            alias = self.fresh("v")
            view = f", LATERAL explode({tags[0]}) AS {alias}(tag{alias})"
            return Source(f"{source.text}{view}", [*source.scope, (f"{alias}.tag{alias}", "S")])
        if depth > 0 and roll < 0.16:
            self.tag("lateral subquery")
            other = self.dataset(stored=True)
            alias = self.fresh("l")
            inner = self.condition(source.scope + other.scope, 1)
            text = f"SELECT {other.keys[0]} AS k{alias}, {other.scope[2][0]} AS s{alias}"
            text += f" FROM {other.text} WHERE {inner}"
            columns = [(f"{alias}.k{alias}", "I"), (f"{alias}.s{alias}", "I")]
            return Source(f"{source.text}, LATERAL ({text}) AS {alias}", source.scope + columns)
        return source

    def join(self, left: Source, depth: int) -> Source:
        right = self.source(depth, first=False)
        keys = [*left.keys, *right.keys] if left.keys and right.keys else []
        both = left.scope + right.scope
        kind = self.pick(
            [
                "JOIN",
                "INNER JOIN",
                ",",
                "CROSS JOIN",
                "LEFT JOIN",
                "LEFT JOIN",
                "RIGHT JOIN",
                "FULL OUTER JOIN",
                "LEFT SEMI JOIN",
                "LEFT ANTI JOIN",
                "USING",
                "NATURAL",
            ]
        )
        if kind in ("USING", "NATURAL"):
            return self.by_names(left, right, kind, keys)
        self.tag(f"join:{kind.lower()}")
        if kind in (",", "CROSS JOIN"):
            comma = kind == ","
            return Source(f"{left.text}{'' if comma else ' '}{kind} {right.text}", both, keys)
        on = self.conjunction(both, 1, 2, mark=kind in ("JOIN", "INNER JOIN"))
        same = [
            (a, b) for a, k in left.scope for b, other in right.scope if k == other and k in "IS"
        ]
        if same and self.chance(0.6 if kind == "FULL OUTER JOIN" else 0.2):
            on = " = ".join(self.draw.choice(same))
        text = f"{left.text} {kind} {right.text} ON {on}"
        if kind in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
            return Source(text, left.scope, left.keys)
        return Source(text, both, keys)

    def by_names(self, left: Source, right: Source, kind: str, keys: list[str]) -> Source:
        """Joins on columns of the same name; those cannot be named by their table alone."""
        shared = {t.rpartition(".")[2] for t, _ in left.scope} & {
            t.rpartition(".")[2] for t, _ in right.scope
        }
        if shared != {"kind", "sev"} or not left.plain or " JOIN " in left.text or "," in left.text:
            self.tag("join:cross join")
            return Source(f"{left.text} CROSS JOIN {right.text}", left.scope + right.scope, keys)
        side = self.pick(["", "LEFT ", "RIGHT ", "FULL ", "LEFT SEMI ", "LEFT ANTI "])
        if kind == "NATURAL" and side.startswith("LEFT "):
            side = "LEFT "
        self.tag(f"join:{kind.lower()} {side.lower()}".strip())
        if kind == "NATURAL":
            text = f"{left.text} NATURAL {side}JOIN {right.text}"
        else:
            text = f"{left.text} {side}JOIN {right.text} USING (kind, sev)"
        both = [
            column
            for column in left.scope + right.scope
            if column[0].rpartition(".")[2] not in ("kind", "sev")
        ]
        if "SEMI" in side or "ANTI" in side:
            return Source(text, left.scope, left.keys, plain=False)
        return Source(text, [*both, ("kind", "S"), ("sev", "I")], keys, plain=False)

    # Conditions

    def conjunction(self, scope: Scope, least: int, most: int, *, mark: bool, deep: int = 0) -> str:
        conditions = [
            self.wide_condition(scope, deep) for _ in range(self.draw.randint(least, most))
        ]
        if mark:
            conditions = [self.marked(condition, scope) for condition in conditions]
        return " AND ".join(conditions)

    def marked(self, condition: str, scope: Scope) -> str:
        if self.chance(0.1):
            return f"({OPEN}{condition}{CLOSE} AND {OPEN}{self.comparison(scope)}{CLOSE})"
        return f"{OPEN}{condition}{CLOSE}"

    def wide_condition(self, scope: Scope, depth: int) -> str:
        """A condition that may have a subquery."""
        if depth <= 0 or not self.chance(0.2):
            return self.condition(scope)
        inner = self.dataset(stored=self.chance(0.8))
        seen = inner.scope + (scope if self.chance(0.5) else [])
        where = self.conjunction(seen, 1, 2, mark=False)
        roll = self.draw.random()
        if roll < 0.35:
            self.tag("exists")
            return f"{self.pick(['', 'NOT '])}EXISTS (SELECT 1 FROM {inner.text} WHERE {where})"
        column = self.column(scope, "IS") or ("1", "I")
        other = self.column(inner.scope, column[1])
        assert other is not None
        if roll < 0.7:
            self.tag("in subquery")
            word = self.pick(["IN", "NOT IN"])
            return f"{column[0]} {word} (SELECT {other[0]} FROM {inner.text} WHERE {where})"
        self.tag("scalar subquery")
        sign = self.pick(["=", ">", "<="])
        return f"{column[0]} {sign} (SELECT max({other[0]}) FROM {inner.text} WHERE {where})"

    # Queries

    def select(self, depth: int, *, simple: bool = False, top: bool = False) -> tuple[str, Outputs]:
        """One SELECT without ORDER BY."""
        source = self.joined(depth if not simple else 0)
        scope = source.scope
        where = ""
        if self.chance(0.7):
            where = f" WHERE {self.conjunction(scope, 1, 2, mark=top, deep=depth)}"
        roll = self.draw.random()
        if simple or roll < 0.5:
            items, outputs, rest = self.plain_items(source, depth)
        elif roll < 0.62:
            items, outputs, rest = self.whole_aggregate(scope)
        elif roll < 0.85:
            items, outputs, rest = self.grouped(scope)
        else:
            items, outputs, rest = self.windowed(source)
        distinct = ""
        if not rest and self.chance(0.15) and all(kind != "P" for _, kind in outputs):
            self.tag("distinct")
            distinct = "DISTINCT "
        return f"SELECT {distinct}{items} FROM {source.text}{where}{rest}", outputs

    def named(self, values: list[tuple[str, str]]) -> tuple[str, Outputs]:
        """A SELECT list with aliases, of which some have capitals."""
        outputs = [
            (f"{self.pick(['c', 'c', 'Out'])}{n}", kind) for n, (_, kind) in enumerate(values)
        ]
        texts = (f"{text} AS {n}" for (text, _), (n, _) in zip(values, outputs, strict=True))
        return ", ".join(texts), outputs

    def plain_items(self, source: Source, depth: int) -> tuple[str, Outputs, str]:
        values: list[tuple[str, str]] = []
        for _ in range(self.draw.randint(1, 4)):
            kind = self.pick(SCALARS)
            roll = self.draw.random()
            if roll < 0.5:
                column = self.draw.choice(source.scope)
                values.append(column)
            elif roll < 0.55 and depth > 0:
                inner = self.dataset(stored=True)
                seen = inner.scope + (source.scope if self.chance(0.5) else [])
                self.tag("scalar subquery in select")
                where = self.condition(seen)
                values.append((f"(SELECT max(pid) FROM {inner.text} WHERE {where})", "I"))
            elif roll < 0.6:
                self.tag("nested output")
                inner_value = self.value(source.scope, kind, 1)
                pattern = self.pick(
                    ["struct({0} AS a, {1} AS B)", "array({0}, {0})", "map('k', {0})"]
                )
                nested = pattern.format(inner_value, self.value(source.scope, "S", 1))
                values.append((nested, "P" if nested.startswith("map") else "R?"))
            else:
                values.append((self.value(source.scope, kind), kind))
        items, outputs = self.named(values)
        return items, outputs, ""

    def aggregate(self, scope: Scope) -> tuple[str, str]:
        number = self.column(scope, "ILM") or ("1", "I")
        scalar = self.column(scope, "SIY") or ("1", "I")
        wide = {"I": "L", "L": "L", "M": "M"}[number[1]]
        if self.chance(0.5):
            plain = [
                ("count(*)", "L"),
                (f"count({scalar[0]})", "L"),
                (f"count(DISTINCT {scalar[0]})", "L"),
                (f"sum({number[0]})", wide),
                (f"min({scalar[0]})", scalar[1]),
                (f"max({number[0]})", number[1]),
                (f"avg({number[0]})", "D?"),
                (f"sort_array(collect_list({scalar[0]}))", "R?"),
                (f"array_join(sort_array(collect_set({scalar[0]})), ',')", "S"),
            ]
            return self.draw.choice(plain)
        self.tag("parameter in aggregate")
        condition = self.condition(scope, 1)
        weighed = [
            (f"count(*) FILTER (WHERE {condition})", "L"),
            (f"count_if({condition})", "L"),
            (f"sum(CASE WHEN {condition} THEN 1 ELSE 0 END)", "L"),
            (f"bool_or({condition})", "B"),
            (f"sum({number[0]} + {self.parameter('I')})", "L" if wide == "L" else "M?"),
            (f"max({self.parameter('S')})", "S"),
        ]
        return self.draw.choice(weighed)

    def whole_aggregate(self, scope: Scope) -> tuple[str, Outputs, str]:
        self.tag("aggregate without group")
        values = [self.aggregate(scope) for _ in range(self.draw.randint(1, 3))]
        items, outputs = self.named(values)
        rest = ""
        if self.chance(0.25):
            self.tag("having without group")
            rest = f" HAVING count(*) {self.pick(['>', '<=', '='])} {self.parameter('I')}"
        return items, outputs, rest

    def grouped(self, scope: Scope) -> tuple[str, Outputs, str]:
        keys: list[tuple[str, str]] = []
        for _ in range(self.draw.randint(1, 2)):
            column = self.column(scope, "SIYBM") or ("1", "I")
            if self.chance(0.15):
                kind = self.pick("ISB")
                column = (self.value(scope, kind, 1), kind)
            if column[0] not in [text for text, _ in keys]:
                keys.append(column)
        values = keys + [self.aggregate(scope) for _ in range(self.draw.randint(1, 2))]
        if self.chance(0.15):
            self.tag("parameter beside groups")
            values.append((self.parameter("I"), "I"))
        items, outputs = self.named(values)
        listed = ", ".join(text for text, _ in keys)
        roll = self.draw.random()
        if roll < 0.5:
            self.tag("group by")
            rest = f" GROUP BY {listed}"
        elif roll < 0.6:
            self.tag("group by ordinal")
            rest = f" GROUP BY {', '.join(str(n + 1) for n in range(len(keys)))}"
        elif roll < 0.7:
            self.tag("group by alias")
            rest = f" GROUP BY {', '.join(name for name, _ in outputs[: len(keys)])}"
        elif roll < 0.75:
            self.tag("group by all")
            rest = " GROUP BY ALL"
        else:
            sets = ", ".join(f"({text})" for text, _ in keys)
            form = self.pick(["ROLLUP", "CUBE", "GROUPING SETS"])
            self.tag(form.lower())
            inside = f"({sets}, ())" if form == "GROUPING SETS" else f"({listed})"
            rest = f" GROUP BY {form} {inside}"
        if self.chance(0.3):
            self.tag("having")
            rest += f" HAVING count(*) {self.pick(['>', '<=', '='])} {self.parameter('I')}"
        return items, outputs, rest

    def windowed(self, source: Source) -> tuple[str, Outputs, str]:
        self.tag("window function")
        scope = source.scope
        by = self.column(scope, "SIB") or ("1", "I")
        partition = f"PARTITION BY {by[0]}" if self.chance(0.6) else ""
        if self.chance(0.2):
            partition = f"PARTITION BY {self.condition(scope, 0)}"
        number = self.column(scope, "IL") or ("1", "I")
        order = (
            f"ORDER BY {number[0]}{self.pick(['', ' DESC', ' DESC NULLS FIRST', ' NULLS LAST'])}"
        )
        if self.chance(0.2):
            order = f"ORDER BY {self.condition(scope, 0)}, {number[0]}"
        functions = [
            (f"rank() OVER ({partition} {order})", "I"),
            (f"dense_rank() OVER ({partition} {order})", "I"),
            (f"sum({number[0]}) OVER ({partition})", "L"),
            (f"sum({number[0]} + {self.parameter('I')}) OVER ({partition} {order})", "L"),
            (f"count(*) OVER ({partition} {order})", "L"),
            (f"max({number[0]}) OVER (w1)", number[1]),
        ]
        if source.keys:
            total = f"{order}, {', '.join(source.keys)}"
            functions += [
                (f"row_number() OVER ({partition} {total})", "I"),
                (f"lag({number[0]}) OVER ({partition} {total})", number[1]),
                (f"lead({number[0]}, 1, -1) OVER ({partition} {total})", number[1]),
                (f"ntile(2) OVER ({total})", "I"),
            ]
        function = self.draw.choice(functions)
        values = [self.draw.choice(scope) for _ in range(2)] + [function]
        items, outputs = self.named(values)
        named = "w1" in function[0]
        if named:
            self.tag("named window")
        return items, outputs, f" WINDOW w1 AS ({partition} {order})" if named else ""

    def combined(self, depth: int) -> tuple[str, Outputs]:
        """Two queries with columns of the same kinds."""
        word = self.pick(
            [
                "UNION ALL",
                "UNION ALL",
                "UNION",
                "INTERSECT",
                "INTERSECT ALL",
                "EXCEPT",
                "EXCEPT ALL",
            ]
        )
        self.tag(f"set:{word.lower()}")
        kinds = [self.pick("ISMY") for _ in range(self.draw.randint(1, 2))]
        queries = []
        outputs: Outputs = []
        for _ in range(2):
            source = self.joined(0)
            values = [
                self.column(source.scope, kind) or (self.value(source.scope, kind, 1), kind)
                for kind in kinds
            ]
            items, names = self.named(values)
            outputs = outputs or names
            mark = word == "UNION ALL"
            where = self.conjunction(source.scope, 1, 2, mark=mark, deep=depth - 1)
            queries.append(f"SELECT {items} FROM {source.text} WHERE {where}")
        if self.chance(0.2):
            queries[1] = f"({queries[1]})"
        return f" {word} ".join(queries), outputs

    def with_common(self) -> tuple[str, Outputs]:
        """A common table expression, used once or twice."""
        self.tag("cte")
        text, outputs = self.select(1, simple=self.chance(0.6))
        name, first, two = self.fresh("t"), self.fresh("x"), self.fresh("y")
        scope = [(f"{first}.{n}", kind) for n, kind in outputs]
        source = f"{name} AS {first}"
        if self.chance(0.4):
            self.tag("cte twice")
            others = [(f"{two}.{n}", kind) for n, kind in outputs]
            kind = self.pick(["JOIN", "LEFT JOIN"])
            on = self.conjunction(scope + others, 1, 1, mark=kind == "JOIN")
            source += f" {kind} {name} AS {two} ON {on}"
            scope = scope + others
        values = [self.draw.choice(scope) for _ in range(2)]
        if self.chance(0.3):
            values = [self.aggregate(scope)]
        items, names = self.named(values)
        where = f" WHERE {self.conjunction(scope, 1, 1, mark=True)}" if self.chance(0.5) else ""
        return f"WITH {name} AS ({text}) SELECT {items} FROM {source}{where}", names

    def starred(self) -> tuple[str, Outputs]:
        self.tag("star")
        source = self.dataset()
        alias = source.keys[0].partition(".")[0]
        star = self.pick(
            ["*", f"{alias}.*", "* EXCEPT (tags, props)", f"*, {self.parameter('S')} AS c"]
        )
        where = self.conjunction(source.scope, 1, 2, mark=True)
        return f"SELECT {star} FROM {source.text} WHERE {where}", [("*", "P")]

    def pivoted(self) -> tuple[str, Outputs]:
        self.tag("pivot")
        source = self.dataset()
        inner = f"SELECT kind, sev, id FROM {source.text} WHERE {self.condition(source.scope)}"
        pivot = "PIVOT (count(id) FOR sev IN (0 AS none, 1 AS some, 2 AS more))"
        return f"SELECT * FROM ({inner}) {pivot}", [("*", "P")]

    def ordered(self, text: str, outputs: Outputs) -> tuple[str, bool]:
        """With an ORDER BY that tells all rows apart but equal ones, and a LIMIT perhaps."""
        if any(kind == "P" for _, kind in outputs) or not self.chance(0.35):
            return text, False
        self.tag("order by")
        if "DISTINCT" in text.split("FROM")[0]:
            self.tag("distinct ordered")
        ends = ["", "", " DESC", " ASC NULLS LAST", " DESC NULLS FIRST"]
        names = [name for name, _ in outputs]
        if self.chance(0.3):
            names = [str(n + 1) for n in range(len(outputs))]
        self.draw.shuffle(names)
        keys = ", ".join(f"{name}{self.pick(ends)}" for name in names)
        limit = ""
        if self.chance(0.5):
            self.tag("limit")
            limit = f" LIMIT {self.draw.randint(0, 3)}"
        if self.chance(0.2):
            self.tag("offset")
            limit += f" OFFSET {self.draw.randint(0, 2)}"
        return f"{text} ORDER BY {keys}{limit}", True

    def query(self) -> Asked:
        roll = self.draw.random()
        if roll < 0.62:
            text, outputs = self.select(2, top=True)
        elif roll < 0.77:
            text, outputs = self.combined(1)
        elif roll < 0.92:
            text, outputs = self.with_common()
        elif roll < 0.97:
            text, outputs = self.starred()
        else:
            text, outputs = self.pivoted()
        text, total = self.ordered(text, outputs)
        return Asked(text, total, frozenset(self.features))


def draw_query(seed: int) -> Asked:
    return Queries(Random(seed)).query()
