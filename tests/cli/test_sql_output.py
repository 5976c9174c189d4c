"""What `tocsin sql` prints where a program reads it: every value can be told from every other."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tocsin.service.serving import listen, port_of, serving

COLUMNS = ["text", "number", "nested"]
ROWS: list[list[Any]] = [
    ["plain", 1, {"a": "x\ty"}],
    [None, None, None],
    ["", 0.5, []],
    ["NULL", True, False],
    ["\\N", -1, ["\\"]],
    ["tab\there, line\nthere,\r\nback\\slash", 2**53, {"ü": "“”"}],
    ["x" * 5000, 0, 0],
]
ESCAPED = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\\\": "\\"}


@asynccontextmanager
async def cluster(columns: list[str], rows: list[list[Any]]) -> AsyncIterator[str]:
    async def answer(_: Request) -> Response:
        told = {"statement": "select", "message": "rows", "columns": columns, "rows": rows}
        return JSONResponse({"results": [told]})

    listener = listen("127.0.0.1", 0)
    app = Starlette(routes=[Route("/v1/statements", answer, methods=["POST"])])
    async with serving(app, listener):
        yield f"http://127.0.0.1:{port_of(listener)}"


async def printed(url: str, *options: str) -> tuple[int | None, str, str]:
    words = ["sql", "-e", "SELECT 1", "--token", "t", "--cluster", url, *options]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tocsin", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode(), err.decode()


def unescaped(field: str) -> str | None:
    if field == "\\N":
        return None
    found, at = "", 0
    while at < len(field):
        width = 2 if field[at] == "\\" else 1
        part = field[at : at + width]
        found += ESCAPED[part] if width == 2 else part
        at += width
    return found


async def test_a_pipe_gets_tab_separated_lines_that_can_be_read_back() -> None:
    async with cluster(COLUMNS, ROWS) as url:
        code, out, _ = await printed(url)
    assert code == 0
    header, *lines = out.removesuffix("\n").split("\n")
    assert header.split("\t") == COLUMNS
    assert len(lines) == len(ROWS)
    for line, row in zip(lines, ROWS, strict=True):
        fields = [unescaped(field) for field in line.split("\t")]
        assert fields[0] == row[0]
        for field, value in zip(fields[1:], row[1:], strict=True):
            assert (None if field is None else json.loads(field)) == value


async def test_json_keeps_the_types_of_values() -> None:
    async with cluster(COLUMNS, ROWS) as url:
        code, out, _ = await printed(url, "--json")
    assert code == 0
    told = [json.loads(line) for line in out.removesuffix("\n").split("\n")]
    assert told == [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]


async def test_two_columns_of_one_name_are_no_object() -> None:
    async with cluster(["n", "n"], [[1, 2]]) as url:
        code, out, err = await printed(url, "--json")
    assert (code, out) == (1, "")
    assert "two fields 'n'" in err
