"""A cluster that starts before its Kafka: waited for, told, and refused where waiting is no use."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from real_servers import RealServers
from secured import SecuredKafka
from tocsin.cluster.opening import opened_store
from tocsin.dev.kafka import Kafka
from tocsin.errors import SettingError, Unavailable
from tocsin.service.serving import listen, port_of
from tocsin.settings import Settings
from tocsin.storage.log import check_reachable
from tocsin.system.ports import free_port

PATIENCE_S = 60


async def test_kafka_that_is_not_there_is_waited_for(kafka: Kafka, tmp_path: Path) -> None:
    await asyncio.to_thread(kafka.stop)
    with listen("127.0.0.1", 0, "cluster_port") as listener:
        opening = asyncio.create_task(
            opened_store(Settings(data=tmp_path, log=kafka.url), listener)
        )
        async with (
            asyncio.timeout(PATIENCE_S),
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port_of(listener)}") as client,
        ):
            status = (await client.get("/v1/status", timeout=PATIENCE_S)).json()
            assert not status["ready"]
            assert f"Kafka at {kafka.url} cannot answer" in status["waits_for"]
            assert (await client.get("/healthz")).status_code == 503
            assert not opening.done()
            await asyncio.to_thread(kafka.start)
            store = await opening
    store.close()


def test_who_does_not_answer_is_told_from_who_does_not_let_us_in(real_servers: RealServers) -> None:
    with pytest.raises(SettingError, match=r"client refuses .*nonsense"):
        check_reachable("kafka://127.0.0.1:1?nonsense=1")
    with pytest.raises(Unavailable, match="cannot answer"):
        check_reachable(f"kafka://127.0.0.1:{free_port()}")
    secured = real_servers.start(SecuredKafka)
    check_reachable(secured.url)
    with pytest.raises(SettingError, match="does not let us in") as refused:
        check_reachable(secured.url.replace("ann:", "ann:not"))
    assert "not" + secured.url.split(":")[2].split("@")[0] not in str(refused.value)
