"""What services write to their logs."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import suppress

import pytest
import structlog
from confluent_kafka import KafkaError

from tocsin.service.logs import configure_logs
from tocsin.storage.log.kafka.clients import chatter

SECRET = "a" + "secret" * 5


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_failure_is_logged_with_its_place_and_without_what_variables_held(
    style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs("info", style)

    def fail(secret: str) -> None:
        raise RuntimeError("it broke")

    try:
        fail(SECRET)
    except RuntimeError:
        structlog.get_logger().exception("a call failed")
    told = capsys.readouterr().err
    assert "it broke" in told
    assert "fail" in told
    assert SECRET not in told


def test_a_service_goes_on_when_nobody_reads_its_logs_any_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    unread = io.TextIOWrapper(io.FileIO(writer, "w"))
    with monkeypatch.context() as gone:
        gone.setattr(sys, "stderr", unread)
        configure_logs("info", "json")
        log = structlog.get_logger()
        os.close(reader)
        log.info("its reader has gone")
        with suppress(BrokenPipeError):
            unread.close()
        log.info("it is closed")
    log.info("this is heard")
    assert "this is heard" in capsys.readouterr().err


@pytest.mark.parametrize(("level", "heard"), [("info", []), ("debug", ["debug"])])
def test_what_kafka_says_by_the_way_is_for_the_debug_log(
    level: str, heard: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(level, "json")
    chatter(KafkaError(KafkaError._TRANSPORT))
    told = capsys.readouterr()
    assert told.out == ""
    assert [json.loads(line)["level"] for line in told.err.splitlines()] == heard
