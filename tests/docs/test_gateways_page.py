"""The page about gateways: its commands start two, before a cluster without Spark, and use them."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest
from typer.testing import CliRunner

from cluster.sparkless import SECRET, SparklessCluster, sparkless
from docs.test_tutorial import BLOCK, compare, steps
from tocsin.cli import app
from tocsin.client.cluster import Cluster
from tocsin.protocol.appends import GatewayStatus
from tocsin.service.tokens import mint
from tocsin.settings import described
from tocsin.system.ports import free_port

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "gateways.md").read_text()
PATIENCE_S = 60.0

pytestmark = [pytest.mark.processes, pytest.mark.timeout(200)]


@contextmanager
def cluster_in(directory: Path) -> Iterator[SparklessCluster]:
    """In a loop of its own: commands have theirs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    context = sparkless(directory)
    try:
        yield asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result(30)
    finally:
        ending = context.__aexit__(None, None, None)
        asyncio.run_coroutine_threadsafe(ending, loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


class Page:
    """What is printed, at real ports."""

    def __init__(self, cluster_url: str) -> None:
        own = cluster_url.rpartition(":")[2]
        self._ports = {
            port: own if port == "7400" else str(free_port())
            for port in set(re.findall(r"\b74\d\d\b", TEXT))
        }
        self.text = re.sub(r"\b74\d\d\b", lambda port: self._ports[port[0]], TEXT)

    def block(self, kind: str) -> str:
        (block,) = [body for found, _, body in BLOCK.findall(self.text) if found == kind]
        return str(block)


@contextmanager
def gateways(page: Page, directory: Path) -> Iterator[list[str]]:
    """The printed commands, until both say that a cluster leads."""
    known = {key: text for key, text in os.environ.items() if not key.startswith("TOCSIN_")}
    environment = known | {"TOCSIN_SECRET": SECRET, "TOCSIN_DATA": str(directory / "gateways")}
    commands = page.block("sh").splitlines()
    processes = [
        subprocess.Popen([sys.executable, "-m", *shlex.split(command)], env=environment)
        for command in commands
    ]
    urls = [
        f"http://127.0.0.1:{words[words.index('--port') + 1]}"
        for words in map(shlex.split, commands)
    ]
    try:
        for url in urls:
            until_ready(url)
        yield urls
    finally:
        for process in processes:
            process.terminate()
        assert [process.wait(30) for process in processes] == [0, 0]


def until_ready(url: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            answer = httpx.get(f"{url}/v1/status")
            if msgspec.json.decode(answer.content, type=GatewayStatus).ready:
                return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise AssertionError(f"{url} is not ready")


async def test_the_printed_gateways_take_what_the_page_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports.csv").write_text("id,severity\na,1\nb,2\n")
    scopes = ("admin", "publish", "subscribe")
    token = mint(SECRET, "maria", scopes, expires_s=600, now=time.time())
    monkeypatch.setenv("TOCSIN_TOKEN", token)
    (tmp_path / "cluster").mkdir()
    with cluster_in(tmp_path / "cluster") as cluster:
        page = Page(cluster.url)
        with gateways(page, tmp_path):
            for command, expected in steps(page.block("console")):
                words = shlex.split(command)[1:]
                done = await asyncio.to_thread(CliRunner().invoke, app, words)
                assert done.exit_code == 0, done.output
                compare(expected, done.output)
            publishing = eval(page.block("python"), {"Cluster": Cluster, "token": token})  # noqa: S307
            answer = await publishing.publish("reports", {"id": "c", "severity": 3})
            await publishing.close()
            assert answer.accepted == 1
            assert cluster.log.ends()["reports"] == answer.end > 0


def test_the_page_names_settings_and_metrics_that_there_are() -> None:
    known = {setting.name for setting in described()}
    for name in re.findall(r"TOCSIN_(\w+)=", TEXT):
        assert name.lower() in known
    assert {"gateways", "gateway_url", "body_limit_bytes", "request_records"} <= known
    source = Path(__file__).parents[2] / "src" / "tocsin" / "gateway"
    code = "".join(file.read_text() for file in source.glob("*.py"))
    for metric in re.findall(r"`(tocsin_gateway_\w+)`", TEXT):
        assert f'"{metric}"' in code
