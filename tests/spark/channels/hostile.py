# ruff: noqa: S608
"""Queries from a grammar: harmless ones, and ones that try to read a file, a variable, or run a
program, hidden in every place and spelling that SQL has. Everything follows from the seed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

T = TypeVar("T")


class Planted(Struct, frozen=True):
    """What must not be reached: a file to read, a variable and a property to ask for, and a file
    that a program would make."""

    file: Path
    variable: str
    property: str
    made: Path


class Grammar:
    """One statement after the other; `hostile` ones hold at least one attack."""

    def __init__(self, seed: int, planted: Planted) -> None:
        self._random = random.Random(seed)
        self._planted = planted

    def harmless(self) -> str:
        return self._query(self._plain(2), self._source(2))

    def hostile(self) -> str:
        attack = self._pick(self._call, self._call, self._table, self._program, self._quoting)
        return attack()

    # attacks

    def _call(self) -> str:
        """A function that reaches out, somewhere in a query."""
        text = self._forbidden()
        for _ in range(self._random.randrange(3)):
            text = self._around(text)
        return self._placed(text)

    def _forbidden(self) -> str:
        planted, file = self._planted, self._planted.file
        argument = self._pick(
            f"'java.lang.System', 'getProperty', '{planted.property}'",
            f"'java.lang.System', 'getenv', '{planted.variable}'",
            f"'java.nio.file.Files', 'readString', '{file}'",
        )
        name = self._name(self._pick("reflect", "java_method", "try_reflect"))
        schema = f'<!DOCTYPE a SYSTEM "file://{file}"><a>&x;</a>'
        return self._pick(
            f"{name}({argument})",
            f"{name}({argument})",
            f"`system`.`builtin`.{name}({argument})",
            f"builtin.{name}({argument})",
            f"{self._spelled('identifier')}('ref' || 'lect')({argument})",
            f"{{fn {name}({argument})}}",
            f"'${{env:{planted.variable}}}'",
            f"'${{system:{planted.property}}}'",
            f"\"${{system:{planted.property}}}\"",
            f"`${{system:{planted.property}}}`",
            f"concat('${{', 'env:{planted.variable}}}', '${{env:{planted.variable}}}')",
            f"from_xml('<a>1</a>', 'a INT', map('rowValidationXSDPath', '{file}'))",
            f"{self._name('xpath_string')}('{schema}', 'a')",
            f"{self._name('input_file_name')}()",
            f"from_json('{{}}', {name}({argument}))",
            f"{self._spelled('current_user')}()",
            "`current_user`",
        )  # fmt: skip

    def _table(self) -> str:
        """Something in FROM that is no dataset."""
        file, name = self._planted.file, self._random.choice
        kind = name(["text", "csv", "json", "binaryFile", "`text`", "TeXt", "xml", "orc"])
        source = self._pick(
            f"{kind}.`{file}`",
            f"{kind}.`file://{file}`",
            f"{self._spelled('identifier')}('text.`{file}`')",
            f"{self._spelled('identifier')}('te' || 'xt.`{file}`')",
            f"spark_catalog.text.`{file}`",
            f"{self._name('read_files')}('{file}')",
            f"`text`{self._gap()}.{self._gap()}`{file}`",
            f"'{file}'",
            f"`{file}`",
            f"`text.{file}`",
            "python_worker_logs()",
            f"range({self._forbidden()})",
            f"explode(array({self._forbidden()}))",
            f"VALUES ({self._forbidden()}) AS t(a)",
            f"(TABLE text.`{file}`)",
            f"text.`{file}` VERSION AS OF 1",
            f"STREAM text.`{file}`",
            f"LATERAL {self._forbidden()}",
        )
        return self._pick(
            f"SELECT * FROM {source}",
            f"FROM {source} SELECT *",
            f"FROM {source} |> SELECT *",
            f"FROM {source} | SELECT *",
            f"TABLE {source}",
            f"SELECT * FROM reports AS r, {source} AS s",
            f"SELECT * FROM reports AS r LEFT JOIN {source} AS s ON true",
            f"WITH a AS (SELECT * FROM {source}) SELECT * FROM a",
            f"WITH text AS (SELECT 1 AS a) SELECT * FROM {source}",
            f"SELECT (SELECT max(value) FROM {source}) AS x FROM reports",
            f"SELECT id FROM reports WHERE EXISTS (SELECT * FROM {source})",
            f"SELECT id FROM reports WHERE type IN (SELECT value FROM {source})",
            f"SELECT id, type FROM reports UNION ALL SELECT 1, value FROM {source}",
        )

    def _program(self) -> str:
        command = f"touch {self._planted.made}"
        transform = self._spelled(self._random.choice(["transform", "map", "reduce"]))
        arguments = self._pick("(id)", "(id, type)", " id", "(*)")
        using = f"{transform}{arguments} USING '{command}' AS (x STRING)"
        return self._pick(
            f"SELECT {using} FROM reports",
            f"FROM reports SELECT {using}",
            f"FROM (FROM reports {using} AS m) SELECT *",
            f"SELECT x FROM (SELECT {using} FROM reports) AS t",
            f"WITH a AS (SELECT {using} FROM reports) SELECT * FROM a",
            f"SELECT id FROM reports UNION ALL SELECT {using} FROM reports",
            f"SELECT {self._name('reflect')}('java.lang.Runtime', 'getRuntime') AS x FROM reports",
            f"SELECT 1 AS a; SELECT {using} FROM reports",
            f"BEGIN SELECT {using} FROM reports; END",
            f"EXECUTE IMMEDIATE 'SELECT {transform}(id) USING \"{command}\" FROM reports'",
            f"SET a = b; SELECT {using} FROM reports",
            f"ADD FILE '{self._planted.file}'",
        )

    def _quoting(self) -> str:
        """Text that ends elsewhere for one reader than for another."""
        attack = self._forbidden()
        table = f"text.`{self._planted.file}`"
        return self._pick(
            f"SELECT 1 AS `a __stored_reports`, 2 AS `, {attack} AS b, 3 AS ` FROM reports",
            f"SELECT 1 AS `a`` __stored_reports`, 2 AS `, {attack} AS b, 3 AS ` FROM reports",
            f"SELECT '\\' AS a, {attack} AS b -- ' AS c\nFROM reports",
            f"SELECT r'\\' AS a, {attack} AS b, ' ' AS c FROM reports",
            f"SELECT r'\\', {attack} AS x --' FROM reports\nFROM reports",
            f"SELECT 1 AS a -- \\\n, {attack} AS b\nFROM reports",
            f"SELECT 1 AS a -- x\r, {attack} AS b\nFROM reports",
            f"SELECT 1 AS a /* /* */ , {attack} AS b /* */ */ FROM reports",
            f"SELECT 1 AS a /* /* */ , {attack} AS b FROM reports -- */",
            f"SELECT $$ ' $$ AS a, {attack} AS b, $$ ' $$ AS c FROM reports",
            f"SELECT $x$ ' $x$, {attack} AS b, $x$ ' $x$ FROM reports",
            f"SELECT 'a''b' AS a, ''', {attack} AS b, ''' AS c FROM reports",
            f"SELECT \"a\\\" AS a, {attack} AS b, \"\" AS c FROM reports",
            f"SELECT \"a`\", {attack}, \"`\" FROM reports",
            f"SELECT `a\\`, {attack} AS b, 1 AS `b` FROM reports",
            f"SELECT /*+ {attack} */ 1 AS a FROM reports",
            f"SELECT /*+ BROADCAST(r), {attack} */ 1 AS a FROM reports AS r",
            f"SELECT /*+*/ {attack} /*+*/ AS a FROM reports",
            f"SELECT 1 AS a FROM reports /*+ {attack} */",
            f"SELECT 'x' AS a, '\\u0027, {attack} AS b, \\u0027' AS c FROM reports",
            f"SELECT U&'\\0027' AS a, {attack} AS b FROM reports",
            f"SELECT N'x', E'\\'', {attack} AS b, '' FROM reports",
            f"SELECT '\\\\' AS a, {attack} AS b, '\\\\' AS c FROM reports",
            f"SELECT `reports`.id, '/*' AS a, {attack} AS b, '*/' AS c FROM reports",
            f"SELECT '--' AS a, {attack} AS b FROM reports",
            f"SELECT 1 AS a FROM reports WHERE '__stored_reports`' = '`' OR {attack} = 1",
            f"SELECT `x`.`y` FROM (SELECT 1 AS y) AS `x`, `text`.`{self._planted.file}`",
            f"SELECT 1 AS `{table}`, `{table}`.* FROM reports",
            f"SELECT ｒeflect('a'), reﬂect('a'), {attack} AS x FROM reports",
            f"SELECT {attack} AS x FROM reports WINDOW w AS (ORDER BY {attack})",
            f"SELECT sum(id) OVER w AS x FROM reports WINDOW w AS (PARTITION BY {attack})",
        )  # fmt: skip

    # places and spellings

    def _placed(self, text: str) -> str:
        plain = self._plain(1)
        return self._pick(
            f"SELECT {text} AS x FROM reports",
            f"SELECT DISTINCT {text} AS x, {plain} AS y FROM reports",
            f"SELECT id FROM reports WHERE {text} = {plain}",
            f"SELECT id FROM reports ORDER BY {text}, id DESC",
            f"SELECT count(*) AS n FROM reports GROUP BY {text}",
            f"SELECT type, count(*) AS n FROM reports GROUP BY type HAVING max({text}) > 1",
            f"SELECT max({text}) FILTER (WHERE {text} > 1) AS x FROM reports",
            f"SELECT sum(id) OVER (PARTITION BY {text} ORDER BY {text}) AS x FROM reports",
            f"SELECT id FROM reports LIMIT {text}",
            f"SELECT id FROM reports AS r JOIN users AS u ON r.type = {text}",
            f"SELECT id, v FROM reports LATERAL VIEW explode(array({text})) t AS v",
            f"SELECT * FROM reports, LATERAL (SELECT {text} AS v) AS t",
            f"WITH a AS (SELECT {text} AS x) SELECT * FROM a",
            f"SELECT (SELECT {text}) AS x FROM reports",
            f"SELECT id FROM reports WHERE id IN (SELECT {text})",
            f"SELECT id AS x FROM reports UNION ALL SELECT {text}",
            f"SELECT id AS x FROM reports EXCEPT SELECT {text}",
            f"SELECT transform(array(1), e -> {text}) AS x FROM reports",
            f"SELECT aggregate(array(1), {text}, (a, e) -> {text}) AS x FROM reports",
            f"SELECT CASE WHEN {text} = 1 THEN {text} ELSE {text} END AS x FROM reports",
            f"SELECT CAST({text} AS STRING) AS x, struct({text} AS q).q AS y FROM reports",
            f"SELECT * FROM VALUES (1, {text}) AS t(a, b)",
            f"SELECT * FROM reports PIVOT (max({text}) FOR type IN ('fire', 'flood'))",
            f"SELECT array({text})[0] AS x, map('a', {text})['a'] AS y FROM reports",
            f"SELECT date '2024-01-01' + INTERVAL ({text}) DAY AS x FROM reports",
            f"SELECT id LIKE {text} AS x, id BETWEEN {text} AND {text} AS y FROM reports",
            f"SELECT stack(1, {text}) AS x FROM reports",
            f"SELECT listagg({text}, {text}) WITHIN GROUP (ORDER BY {text}) AS x FROM reports",
            f"SELECT near({text}, 1, 2, 3, {text}) AS x FROM reports",
        )

    def _around(self, text: str) -> str:
        return self._pick(
            f"({text})",
            f"upper({text})",
            f"coalesce(NULL, {text})",
            f"concat('a', {text})",
            f"CASE WHEN true THEN {text} END",
            f"element_at(array({text}), 1)",
            f"transform(array(1), x -> {text})[0]",
            f"(SELECT {text})",
            f"CAST({text} AS STRING)",
            f"{text} || ''",
            f"if(true, {text}, '')",
            f"named_struct('a', {text}).a",
        )

    def _name(self, name: str) -> str:
        name = self._spelled(name)
        quoted = self._pick(name, name, f"`{name}`")
        return quoted + self._pick("", "", self._gap(), " /* sqlglot.anonymous */ ")

    def _spelled(self, name: str) -> str:
        return "".join(self._random.choice((letter.lower(), letter.upper())) for letter in name)

    def _gap(self) -> str:
        return self._pick(" ", "\n", "\t", "/**/", "/* ' */", '-- "\n', "/*+ x */", "\u00a0")

    # what is harmless

    def _plain(self, depth: int) -> str:
        if depth == 0:
            return self._pick("id", "type", "sev", "lat", "1", "'a'", "2.5", "NULL", "tags[0]")
        first, two = (f"CAST({self._plain(depth - 1)} AS STRING)" for _ in range(2))
        return self._pick(
            f"coalesce({first}, {two})",
            f"concat({first}, '-', {two})",
            f"CASE WHEN {first} = {two} THEN {first} END",
            f"{self._spelled('upper')}({first})",
            f"length({first})",
            "size(transform(tags, x -> concat(x, type)))",
            f"round(lat, 1) + {self._random.randrange(9)}",
            f"date_trunc('hour', at) {self._gap().replace('+', ' ')} IS NOT NULL",
            f"`greatest`({first}, {two})",
            "(sev BETWEEN 1 AND 3 OR type LIKE 'f%')",
            "abs(sev) % 3",
            f"to_json(struct({first} AS a, {two} AS b))",
            "array_contains(tags, 'x')",
            f"near(lat, lon, 50, 10, {self._random.randrange(99)})",
            "(SELECT max(radius) FROM users)",
        )  # fmt: skip

    def _source(self, depth: int) -> str:
        if depth == 0:
            return "reports"
        inner, fields = self._source(depth - 1), "id, type, sev, lat, lon, at, tags"
        return self._pick(
            "reports",
            f"(SELECT * FROM {inner}) AS q",
            f"(SELECT {fields} FROM {inner} WHERE sev > 1 UNION ALL"
            f" SELECT {fields} FROM reports) AS q",
            "reports LATERAL VIEW explode(tags) t AS tag",
            "reports CROSS JOIN range(2) AS numbers(n)",
            "reports LEFT JOIN users ON radius > sev",
        )

    def _query(self, expression: str, source: str) -> str:
        return self._pick(
            f"SELECT {expression} AS x FROM {source}",
            f"SELECT {expression} AS x FROM {source} ORDER BY x LIMIT 3",
            f"SELECT type, count(*) AS n FROM {source} WHERE {expression} IS NULL GROUP BY type",
            f"WITH a AS (SELECT {expression} AS x FROM {source}) SELECT DISTINCT x FROM a",
            f"SELECT rank() OVER (PARTITION BY type ORDER BY sev) AS r, {expression} AS x"
            f" FROM {source}",
            f"SELECT max({expression}) FILTER (WHERE sev > 0) AS x FROM {source}",
        )

    def _pick(self, *choices: T) -> T:
        return self._random.choice(choices)
