"""SQL types of columns and parameters: read from their text, and made canonical.

Knows nothing of datasets, Spark or statements.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from tocsin.model import ATTACHMENT

SCALARS = frozenset(
    {"BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "TIMESTAMP", "DATE"}
)
_SYNONYMS = {
    "BOOL": "BOOLEAN",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "TEXT": "STRING",
}
KNOWN = (
    "BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, TIMESTAMP, DATE, ATTACHMENT, "
    "ARRAY<type>, MAP<STRING,type> or STRUCT<name:type,…>"
)
MOST_DEPTH = 32
MOST_CHARACTERS = 16 * 1024
_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9]*|\d+|[<>(),:]|$)")


class SqlType(Struct, frozen=True):
    """A type as a tree. `names` belong to STRUCT, `precision` and `scale` to DECIMAL."""

    kind: str
    items: tuple[SqlType, ...] = ()
    names: tuple[str, ...] = ()
    precision: int = 0
    scale: int = 0

    @property
    def scalar(self) -> bool:
        return self.kind in SCALARS

    def __str__(self) -> str:
        if self.kind == "DECIMAL":
            return f"DECIMAL({self.precision},{self.scale})"
        if self.kind == "STRUCT":
            fields = (f"{n}:{t}" for n, t in zip(self.names, self.items, strict=True))
            return f"STRUCT<{','.join(fields)}>"
        if self.items:
            return f"{self.kind}<{','.join(map(str, self.items))}>"
        return self.kind


class _TypeReader:
    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"a type has at most {MOST_CHARACTERS} characters")
        self.text = text
        self.at = 0
        self._depth = 0

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            raise ValueError(f"unexpected {self.text[self.at :].strip()[:1]!r} in a type")
        return match.group(1)

    def take(self) -> str:
        token = self.peek()
        match = _TOKEN.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return token

    def expect(self, wanted: str) -> None:
        token = self.take()
        if token != wanted:
            raise ValueError(f"expected {wanted!r} in the type, got {token or 'its end'!r}")

    def read(self) -> SqlType:
        word = self.take()
        kind = _SYNONYMS.get(word.upper(), word.upper())
        if kind == "DECIMAL":
            return self._decimal()
        if kind in SCALARS:
            return SqlType(kind)
        if kind == "ARRAY":
            self.expect("<")
            item = self._inner()
            self.expect(">")
            return SqlType("ARRAY", (item,))
        if kind == "MAP":
            self.expect("<")
            key = self.read()
            if key.kind != "STRING":
                raise ValueError(f"the keys of a MAP are STRING, not {key}")
            self.expect(",")
            value = self._inner()
            self.expect(">")
            return SqlType("MAP", (key, value))
        if kind == "STRUCT":
            return self._struct()
        if kind == ATTACHMENT:
            return SqlType(kind)
        raise ValueError(f"unknown type {word!r}: expected {KNOWN}")

    def _inner(self) -> SqlType:
        """Brokers look for attachments in the fields of results, and no deeper."""
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise ValueError(f"a type nests at most {MOST_DEPTH} levels deep")
        inner = self.read()
        self._depth -= 1
        if inner.kind == ATTACHMENT:
            raise ValueError("an ATTACHMENT is a column of its own, never a part of another")
        return inner

    def _decimal(self) -> SqlType:
        precision, scale = 10, 0
        if self.peek() == "(":
            self.take()
            precision = self._number()
            if self.peek() == ",":
                self.take()
                scale = self._number()
            self.expect(")")
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError("DECIMAL(p,s) needs 1 <= p <= 38 and 0 <= s <= p")
        return SqlType("DECIMAL", precision=precision, scale=scale)

    def _number(self) -> int:
        token = self.take()
        if not token.isdigit():
            raise ValueError(f"expected a whole number in DECIMAL(p,s), got {token!r}")
        return int(token)

    def _struct(self) -> SqlType:
        self.expect("<")
        names: list[str] = []
        known: set[str] = set()
        items: list[SqlType] = []
        while True:
            name = self.take()
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                raise ValueError(f"expected a field name in STRUCT<…>, got {name!r}")
            if name.lower() in known:
                raise ValueError(f"STRUCT has two fields called {name!r}")
            known.add(name.lower())
            names.append(name)
            if self.peek() == ":":
                self.take()
            items.append(self._inner())
            if self.peek() != ",":
                break
            self.take()
        self.expect(">")
        return SqlType("STRUCT", tuple(items), tuple(names))


@lru_cache(maxsize=4096)
def parse_type(text: str) -> SqlType:
    """Read a type; `str()` of the answer is its canonical text. ValueError says what is wrong."""
    reader = _TypeReader(text)
    declared = reader.read()
    if reader.peek() != "":
        raise ValueError(f"unexpected {reader.peek()!r} after the type {declared}")
    return declared
