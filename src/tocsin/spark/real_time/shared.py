"""The text of a query that many members share. Pure: no Spark here.

Each record is looked up under one key for every *probe*: forms that ask for the same of a record
share a probe, so that what concerns nobody costs a hash and a look-up, however many channels ask
alike. The parameter sets of all members lie in one table, by 64-bit keys of their probe and values.
What is found under a key is a candidate, whose form says which condition decides and what its
result is.
"""

# ruff: noqa: S608 - writing queries is what it is for

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from msgspec import Struct

from tocsin.model import ANY
from tocsin.protocol import columns
from tocsin.spark.channels.query import PARAMETERS
from tocsin.spark.real_time.members import RECORD, Key, Member
from tocsin.storage.store.subscription_rows import canonical

RECORDS_MARKER = "__records"
SETS_MARKER = "__sets"  # as the store has them: id, channel, arguments
TABLE_MARKER = "__table"  # what `table_sql` makes of them
BOUNDS_NUMBER = "number"  # of what `bounds_sql` answers with
BOUNDS_VALUES = "bounds"
_CELL = "__c"
_NO_KEYS = "CAST(ARRAY() AS ARRAY<BIGINT>)"
_FACTS = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`"""
    rf"|:(?:{columns.BOUNDS}|{columns.COARSE_BOUNDS})\b",
    re.DOTALL,
)
"""Facts that a text takes by name, and quoted texts, where nothing is meant by it."""


class SharedText:
    """What Spark is asked for these members."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = tuple(members)
        self.forms = tuple(dict.fromkeys(member.form for member in members))
        self._numbers = {form: number for number, form in enumerate(self.forms)}
        probes = dict.fromkeys(_probe_of(form.key) for form in self.forms)
        self._probes = {probe: number for number, probe in enumerate(probes)}

    @cached_property
    def channels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(member.channel for member in self.members))

    @cached_property
    def slots(self) -> dict[str, str]:
        """The columns of a parameter set, and their types."""
        return {slot.column: slot.type for member in self.members for slot in member.slots}

    @property
    def sets_sql(self) -> str:
        """Parameter sets with their form and slots, from SETS_MARKER: those of members."""
        a, member = columns.ARGUMENTS, columns.MEMBER
        slots = "".join(f", {self._slot(column)} AS {column}" for column in self.slots)
        return (
            f"SELECT {columns.BACKEND}, {columns.CHANNEL},"
            f" {self._by_member(str(self._numbers[m.form]) for m in self.members)}"
            f" AS {columns.FORM}{slots}"
            f" FROM (SELECT CAST(id AS BIGINT) AS {columns.BACKEND}, channel AS {columns.CHANNEL},"
            f" FROM_JSON(arguments, 'MAP<STRING, STRING>') AS {a},"
            f" {self._member()} AS {member} FROM {SETS_MARKER}) AS {PARAMETERS}"
            f" WHERE {member} IS NOT NULL"
        )

    @property
    def table_sql(self) -> str:
        """A row for each key that a parameter set is found by."""
        forms_of: dict[str, list[int]] = {}
        for form, number in self._numbers.items():
            forms_of.setdefault(self._set_keys(form.key), []).append(number)
        keys = " ".join(
            f"WHEN {columns.FORM} IN ({', '.join(map(str, forms))}) THEN {text}"
            for text, forms in forms_of.items()
        )
        sets = f"({self.sets_sql}) AS {PARAMETERS}"
        return f"SELECT *, EXPLODE(CASE {keys} END) AS {columns.KEY} FROM {sets}"

    @property
    def matches_sql(self) -> str:
        """Who gets what of the records of RECORDS_MARKER, from the table of TABLE_MARKER."""
        form = f"{PARAMETERS}.{columns.FORM}"
        payload = self._by_form(form, (f.payload for f in self.forms))
        condition = self._by_form(form, (f.condition for f in self.forms))
        keys = ", ".join(self._record_keys(probe) for probe in self._probes)
        return (
            f"SELECT /*+ BROADCAST({PARAMETERS}) */ {PARAMETERS}.{columns.CHANNEL},"
            f" {PARAMETERS}.{columns.BACKEND}, {RECORD}.{columns.POSITION} AS {columns.ORDER},"
            f" {payload} AS {columns.PAYLOAD} FROM {RECORDS_MARKER} AS {RECORD}"
            f" CROSS JOIN LATERAL EXPLODE(CONCAT({keys})) AS __x({columns.PROBE_KEY})"
            f" CROSS JOIN {TABLE_MARKER} AS {PARAMETERS}"
            f" WHERE __x.{columns.PROBE_KEY} = {PARAMETERS}.{columns.KEY} AND {condition}"
        )

    @property
    def bounds_sql(self) -> str:
        """Values at which ranges may be cut, from the sets of TABLE_MARKER: by the number of their
        probe, as JSON. Empty if no member has a range."""
        forms_of: dict[tuple[int, str], list[int]] = {}
        for form, number in self._numbers.items():
            for _, text in form.key.index.facts if form.key.index else ():
                probe = self._probes[_probe_of(form.key)]
                forms_of.setdefault((probe, text), []).append(number)
        return " UNION ALL ".join(
            f"SELECT {probe} AS {BOUNDS_NUMBER}, {text} AS {BOUNDS_VALUES}"
            f" FROM {TABLE_MARKER} AS {PARAMETERS}"
            f" WHERE {columns.FORM} IN ({', '.join(map(str, forms))})"
            for (probe, text), forms in forms_of.items()
        )

    def _slot(self, column: str) -> str:
        """Members call the same column by different names."""
        slots = ({slot.column: slot for slot in m.slots}.get(column) for m in self.members)
        arguments = self._by_member("NULL" if s is None else _literal(s.argument) for s in slots)
        return f"CAST(ELEMENT_AT({columns.ARGUMENTS}, {arguments}) AS {self.slots[column]})"

    def _by_member(self, values: Iterable[str]) -> str:
        every = list(values)
        if len(set(every)) == 1:
            return every[0]
        return f"ELEMENT_AT(ARRAY({', '.join(every)}), {columns.MEMBER} + 1)"

    def _member(self) -> str:
        """The number of the member that a parameter set belongs to, if there is one."""
        tests: dict[str, list[str]] = {}
        for number, member in enumerate(self.members):
            tests.setdefault(member.channel, []).append(
                f"WHEN {_leaves_open(member)} THEN {number}"
            )
        by_channel = " ".join(
            f"WHEN {_literal(channel)} THEN CASE {' '.join(its)} END"
            for channel, its in tests.items()
        )
        return f"CASE channel {by_channel} END"

    def _by_form(self, form: str, values: Iterable[str]) -> str:
        every = list(values)
        if len(set(every)) == 1:
            return f"({every[0]})"
        forms_of: dict[str, list[str]] = {}
        for number, text in enumerate(every):
            forms_of.setdefault(text, []).append(str(number))
        cases = " ".join(f"WHEN {n} THEN {text}" for text, forms in forms_of.items() for n in forms)
        return f"CASE {form} {cases} END"

    def _set_keys(self, key: Key) -> str:
        number = self._probes[_probe_of(key)]
        given = [value.parameters for value in key.values]
        return _keys(number, given, key.index.keys if key.index else None)

    def _record_keys(self, probe: Probe) -> str:
        return _keys(self._probes[probe], probe.values, probe.keys, several=probe.several)


class Probe(Struct, frozen=True):
    """What a record is looked up by. `several`: the index gives it many keys."""

    values: tuple[str, ...]
    keys: str | None
    several: bool


def _probe_of(key: Key) -> Probe:
    index = key.index
    values = tuple(value.record for value in key.values)
    if index is None:
        return Probe(values, None, several=False)
    return Probe(values, index.probe, index.probes)


def _keys(probe: int, values: Iterable[str], cells: str | None, *, several: bool = True) -> str:
    """An array of keys: hashes of the probe's number, the values and each of the cells."""
    if cells is not None and several:
        cell = f"CAST({_CELL} AS BIGINT)"
        hashed = f"TRANSFORM({_numbered(cells, probe)}, {_CELL} -> {_hash(probe, cell, *values)})"
        return f"COALESCE({hashed}, {_NO_KEYS})"
    only = () if cells is None else (f"CAST({cells} AS BIGINT)",)
    return f"ARRAY({_hash(probe, *only, *values)})"


def _hash(*values: object) -> str:
    return f"XXHASH64({', '.join(map(str, values))})"


def bounds_names(probe: int) -> tuple[str, str]:
    """What the boundaries of a probe's ranges are called, all and every so many."""
    return f"{columns.BOUNDS}{probe}", f"{columns.COARSE_BOUNDS}{probe}"


def _numbered(text: str, probe: int) -> str:
    """With the boundaries of this probe."""
    return _FACTS.sub(lambda at: f"{at[0]}{probe}" if at[0].startswith(":") else at[0], text)


def _leaves_open(member: Member) -> str:
    """Whether a set leaves exactly these parameters open, by its canonical text: there a quotation
    mark inside a value has a backslash before it."""
    tests = []
    for name in member.parameters:
        opened = _literal(f'"{name}":{canonical(dict(ANY))}')
        is_open = f"CONTAINS(arguments, {opened})"
        tests.append(is_open if name.lower() in member.mask else f"NOT {is_open}")
    return " AND ".join(tests) or "true"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
