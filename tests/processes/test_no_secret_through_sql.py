"""A running system: neither SQL nor what Java was started with tells the secret."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tocsin.client import Client
from tocsin.errors import StatementError
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

GETENV = "'java.lang.System', 'getenv', 'TOCSIN_SECRET'"
ATTACKS = [
    "SELECT TRANSFORM(id) USING 'id' AS (x) FROM {new} told_reports",
    f"SELECT `reflect`({GETENV}) AS x FROM {{new}} told_reports",  # noqa: S608
    f"SELECT id FROM {{new}} told_reports ORDER BY `system`.`builtin`.`reflect`({GETENV})",  # noqa: S608
    f"SELECT id FROM {{new}} told_reports WHERE id IN (SELECT java_method({GETENV}))",  # noqa: S608
    "SELECT id, value FROM {new} told_reports, IDENTIFIER('text.`{data}/secret`')",
    "SELECT id, value FROM {new} told_reports, text.`{data}/secret`",
]


@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_statement_reaches_out(live: System, attack: str) -> None:
    async with Client(cluster=live.cluster_url, token=live.token("ann", "admin")) as client:
        await client.sql("CREATE DATASET IF NOT EXISTS told_reports (id STRING)")
        for before, new in (("", ""), ("CREATE CONTINUOUS CHANNEL told() AS ", "NEW")):
            with pytest.raises(StatementError) as caught:
                await client.sql(before + attack.format(new=new, data=live.settings.data))
            assert caught.value.line == 1
            assert live.settings.secret not in str(caught.value)


async def test_a_variable_in_a_text_is_text(live: System) -> None:
    async with Client(cluster=live.cluster_url, token=live.token("ann", "admin")) as client:
        (shown,) = await client.sql("SELECT '${env:TOCSIN_SECRET}' AS x, '${env:PATH}' AS y")
    assert shown.rows == [["${env:TOCSIN_SECRET}", "${env:PATH}"]]


def environments_of_java(data: Path) -> list[bytes]:
    """Of processes whose command names Spark's folder in this data directory."""
    wanted = f"spark.local.dir={data.resolve()}/".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "cmdline").read_bytes():
                found.append((folder / "environ").read_bytes())
    return found


def test_java_was_started_without_the_secret(live: System) -> None:
    found = environments_of_java(live.settings.data)
    assert found, "no Java runs"
    for environment in found:
        assert live.settings.secret.encode() not in environment
        assert b"TOCSIN_" not in environment
