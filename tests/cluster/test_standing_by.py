"""What a cluster says while it has no store: where the leader is, and why it cannot follow it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tocsin.cli import main
from tocsin.cluster.standing_by import WithoutStore, require_servers
from tocsin.errors import MISCONFIGURED, SettingError, Unavailable
from tocsin.settings import Settings
from tocsin.storage.identity import Mark, write_mark
from tocsin.storage.store.standby import Leader, Standby

LEADER = "http://leader:7400"
STORE = "0" * 32
ON_SERVERS: dict[str, Any] = {
    "log": "kafka://127.0.0.1:1/t",
    "store": "postgresql://u@127.0.0.1:1/d",
}


def standing_by(silent_s: float = 0.0, address: str = LEADER) -> Standby:
    standby = Standby()
    leader = Leader(4, "process 7 on north", address, STORE, silent_s)
    for now in (100.0, 120.0):
        standby.sees(leader, now)
    return standby


async def said(path: str, cluster: WithoutStore) -> tuple[int, dict[str, Any]]:
    transport = httpx.ASGITransport(cluster.app())
    async with httpx.AsyncClient(transport=transport, base_url="http://standby") as http:
        answer = await http.get(path)
    return answer.status_code, answer.json()


async def test_a_standby_is_well_and_sends_everybody_to_the_leader(tmp_path: Path) -> None:
    write_mark(tmp_path, Mark(STORE))
    cluster = WithoutStore(Settings(data=tmp_path), None, standing_by(1.5))
    code, health = await said("/healthz", cluster)
    assert (code, health["status"], health["leads"]) == (503, "standby", False)
    code, status = await said("/v1/status", cluster)
    assert (code, status["role"], status["ready"]) == (200, "standby", False)
    assert (status["leader"], status["leader_silent_s"]) == (LEADER, 1.5)
    assert status["trouble"] is None
    code, refused = await said("/v1/datasets", cluster)
    assert (code, refused["error"]["code"]) == (503, "standby")
    assert LEADER in refused["error"]["hint"]


async def test_a_leader_that_did_not_say_where_it_is_is_named_by_its_process(
    tmp_path: Path,
) -> None:
    cluster = WithoutStore(Settings(data=tmp_path), None, standing_by(address=""))
    _, refused = await said("/v1/datasets", cluster)
    assert "process 7 on north" in refused["error"]["hint"]


@pytest.mark.parametrize("mark", [None, Mark("1" * 32)])
async def test_a_data_directory_that_is_not_the_leaders_is_told(
    tmp_path: Path, mark: Mark | None
) -> None:
    if mark is not None:
        write_mark(tmp_path, mark)
    cluster = WithoutStore(Settings(data=tmp_path), None, standing_by())
    _, status = await said("/v1/status", cluster)
    assert "is not the leader's" in status["trouble"]


async def test_a_server_that_is_away_is_waited_for_as_ever(tmp_path: Path) -> None:
    cluster = WithoutStore(Settings(data=tmp_path), None, None)
    cluster.waits(Unavailable("the store cannot answer"))
    code, health = await said("/healthz", cluster)
    assert (code, health["status"], health["leads"]) == (503, "waits", False)
    _, status = await said("/v1/status", cluster)
    assert (status["role"], status["waits_for"]) == (None, "the store cannot answer")
    assert (await said("/v1/datasets", cluster))[1]["error"]["code"] == "unavailable"


@pytest.mark.parametrize("lacking", ["log", "store"])
def test_a_standby_on_files_is_refused(
    lacking: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    require_servers(Settings(**ON_SERVERS))
    given = {name: text for name, text in ON_SERVERS.items() if name != lacking}
    with pytest.raises(SettingError, match=f"{lacking} is in the data directory"):
        require_servers(Settings(**given))
    settings = given | {"secret": "x" * 40, "cluster_port": "0", "standby": "true"}
    words = [word for name, text in settings.items() for word in ("--set", f"{name}={text}")]
    monkeypatch.setattr(sys, "argv", ["tocsin", "cluster", "--data", str(tmp_path), *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == MISCONFIGURED
    assert "a standby needs a store on PostgreSQL or MariaDB" in capsys.readouterr().err


def test_a_standby_makes_no_secret_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TOCSIN_SECRET", raising=False)
    settings = {**ON_SERVERS, "cluster_port": "0"}
    words = [word for name, text in settings.items() for word in ("--set", f"{name}={text}")]
    argv = ["tocsin", "cluster", "--standby", "--data", str(tmp_path), *words]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == MISCONFIGURED
    assert "no secret" in capsys.readouterr().err
