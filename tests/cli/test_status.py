"""What may lose what was acknowledged, and what to do: in /v1/status and by `tocsin status`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest
import typer

from cluster.sparkless import sparkless
from tocsin.cli.status import status
from tocsin.storage.store.incarnation import NOTE

OFF = "fsync is off: set fsync=on"


async def test_warnings_are_told_and_do_not_make_a_cluster_unwell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sparkless(tmp_path) as cluster, httpx.AsyncClient(base_url=cluster.url) as http:
        monkeypatch.setattr(cluster.store._database, "risk", OFF)
        (tmp_path / NOTE).unlink()
        (tmp_path / NOTE).mkdir()  # nothing can be moved there
        cluster._noted = None
        cluster._try_to_note()
        warned = (await http.get("/v1/status")).json()["warnings"]
        assert warned[0] == f"the store may lose commits at a power cut: {OFF}"
        assert "cannot be noted" in warned[1]
        assert "Is a directory" in warned[1]
        assert (await http.get("/healthz")).status_code == 200
        await asyncio.to_thread(status, cluster.url)
        assert f"warning\t{warned[0]}" in capsys.readouterr().out

        (tmp_path / NOTE).rmdir()
        cluster._try_to_note()
        assert len((await http.get("/v1/status")).json()["warnings"]) == 1
        assert json.loads((tmp_path / NOTE).read_bytes())["store"]

        cluster._engine.absence = "Java is gone"
        with pytest.raises(typer.Exit):
            await asyncio.to_thread(status, cluster.url)
        assert "ready\tno" in capsys.readouterr().out
