"""The page about quotas, as printed: its commands are run against a cluster of this process, its
snippet and numbers are held to the code."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from cluster.sparkless import SECRET, sparkless
from cluster.test_grants import sql, who
from docs.printed import PAGES, steps
from tocsin.cli import main
from tocsin.client import http
from tocsin.cluster.rates import SECOND, cost
from tocsin.errors import QuotaExceeded
from tocsin.model import QuotaName
from tocsin.protocol.client import OVER_QUOTA
from tocsin.service.quotas import REFUSED

NAME = "how-to/quotas.md"
PAGE = (PAGES / NAME).read_text()
SUBSTITUTION = re.compile(r"\$\((.*?)\)")
SETTING = re.compile(r"(?:export )?(TOCSIN_TOKEN)=(\S+) ?")


class Shell:
    """As much of one as the page needs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def run(self, line: str) -> tuple[str, bool]:
        """What the command said, and whether it failed."""
        line = SUBSTITUTION.sub(lambda inner: self.run(inner[1])[0].strip(), line)
        with self._monkeypatch.context() as before:
            setting = SETTING.match(line)
            if setting is not None:
                lasting = line.startswith("export")
                (self._monkeypatch if lasting else before).setenv(setting[1], setting[2])
                line = line[setting.end() :]
            line, _, file = line.partition(" > ")
            said, failed = self._command(shlex.split(line), before)
        if file:
            Path(file).write_text(said)
        return said, failed

    def _command(self, words: list[str], before: pytest.MonkeyPatch) -> tuple[str, bool]:
        if not words:
            return "", False
        if words[0] == "cat":
            return Path(words[1]).read_text(), False
        before.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as end:
            main()
        printed = self._capsys.readouterr()
        return printed.out + printed.err, bool(end.value.code)


async def test_the_page_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOCSIN_SECRET", SECRET)
    data = tmp_path / "ward-data"
    data.mkdir()
    async with sparkless(data) as cluster:
        monkeypatch.setenv("TOCSIN_CLUSTER_URL", cluster.url)
        shell = Shell(monkeypatch, capsys)
        capsys.readouterr()
        for command, expected, fails in steps(NAME):
            said, failed = await asyncio.to_thread(shell.run, command)
            said = " ".join(said.split())
            assert failed == fails, said
            for line in expected:
                parts = [re.escape(" ".join(part.split())) for part in line.split("…")]
                assert re.search(" ?.*".join(parts), said), f"expected {line!r} in: {said}"
        with pytest.raises(QuotaExceeded) as refused:
            await sql(cluster, "SUBSCRIBE TO DATASET calls WHERE bed = 3", who("ann", "nurses"))
    assert f"# {refused.value.field} {refused.value.retry_after_s}" in PAGE


async def test_its_snippet_catches_what_the_client_raises(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

    class Refusing:
        async def subscribe_to_dataset(self, *_: str) -> None:
            raise QuotaExceeded("", field="subscriptions")

    made: dict[str, Any] = {}
    body = "\n".join(f"    {line}" for line in snippet.splitlines())
    exec(f"async def play(client):\n{body}", made)  # noqa: S102
    await made["play"](Refusing())
    (comment,) = re.findall(r"# (.*)$", snippet, re.MULTILINE)
    assert capsys.readouterr().out.strip() == comment


def test_its_table_and_numbers_are_those_of_the_code() -> None:
    table = PAGE[: PAGE.index("## Set")]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == get_args(QuotaName)
    assert f"close code {OVER_QUOTA}" in PAGE
    assert f"code `{QuotaExceeded.code}`" in PAGE
    assert next(iter(REFUSED.describe())).name + "_total{" in PAGE
    assert http.MOST_PATIENCE_S == 60
    assert "within a minute, and gives up after six\nattempts" in PAGE
    assert cost(1000, 5) == 200 * SECOND
    assert "mean silence for 200 seconds" in PAGE
