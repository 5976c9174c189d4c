"""Spark is warmed up behind a start's back: by the path of real channels, and at no risk."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tocsin.settings import Settings
from tocsin.spark import engine as engine_module
from tocsin.spark.engine import Engine
from tocsin.spark.warm_up import warm_up
from tocsin.storage.log import open_log
from tocsin.storage.store.store import Store
from tocsin.storage.tables import open_tables

pytestmark = pytest.mark.spark


def test_the_made_up_channel_really_matches(spark: SparkSession) -> None:
    assert warm_up(spark) == 2


def test_a_start_is_over_when_spark_is_awake_and_survives_a_failed_warm_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def broken(_: SparkSession) -> int:
        asked.set()
        raise RuntimeError("no luck")

    monkeypatch.setattr(engine_module, "warm_up", broken)
    monkeypatch.setattr(engine_module, "build_session", lambda _: spark.newSession())
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # it is everybody's
    with (
        Store.open(f"sqlite:///{tmp_path}/store.db") as store,
        open_log(tmp_path / "log", segment_bytes=10_000) as log,
    ):
        settings = Settings(data=tmp_path)
        given = settings, store, log, open_tables(settings, store)
        engine = Engine(*given, lambda *_: None, lambda *_: None)
        engine.start()
        assert asked.is_set()
        assert engine.trouble is None
        engine.stop()
