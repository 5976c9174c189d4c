"""The page about the company profile: its command starts a system, on addresses that are real."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.settings import SHORT_LIVED_JAVA

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "company.md"

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def test_printed_command_starts_a_system_on_servers(
    kafka: Kafka, postgresql: PostgreSQL, tmp_path: Path
) -> None:
    block = re.search(r"^```console\n\$ (.*?)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert block is not None
    words = [
        re.sub(r"^kafka://.*", f"{kafka.url}/{uuid.uuid4().hex}", word)
        if "kafka://" in word
        else re.sub(r"^postgresql.*", postgresql.fresh(), word)
        for word in shlex.split(block[1])
    ]
    assert words[0] == "tocsin"
    environment = {key: text for key, text in os.environ.items() if not key.startswith("TOCSIN_")}
    ports = ("CLUSTER_PORT", "COORDINATOR_PORT", "BROKER_PORT", "BROKER_WS_PORT")
    environment |= {f"TOCSIN_{name}": "0" for name in ports}
    environment |= {"TOCSIN_JAVA_OPTIONS": SHORT_LIVED_JAVA, "TOCSIN_WARM_UP": "false"}
    last = block[2].strip().splitlines()[-1]
    with subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(line.strip())
            if line.strip() == last:
                break
        process.send_signal(signal.SIGINT)
        told += process.stdout.read().splitlines()
    assert last in told, told
    assert not any("Traceback" in line for line in told), told
    assert (tmp_path / "tocsin-data" / "secret").exists()
    assert not (tmp_path / "tocsin-data" / "store.db").exists()
