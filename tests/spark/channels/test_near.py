"""The grid never loses a pair that the exact test accepts, and never shows one twice."""

from __future__ import annotations

import math
import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tocsin.geo import RADIUS_KM, distance_km, level_of
from tocsin.spark.channels import near

pytestmark = pytest.mark.spark


def _pairs(seed: int, count: int) -> dict[str, list[float]]:
    """Points and others just inside or outside a radius from them, poles and date line included."""
    chance = random.Random(seed)
    columns: dict[str, list[float]] = {name: [] for name in ("lat1", "lon1", "lat2", "lon2", "km")}
    for _ in range(count):
        lat = chance.choice([90.0, -90.0, 0.0, chance.uniform(-90, 90), chance.uniform(89.9, 90)])
        lon = chance.choice([180.0, -180.0, 0.0, chance.uniform(-180, 180)])
        km = chance.choice([0.0, 10 ** chance.uniform(-4, 4.3)])
        way, turn = km / RADIUS_KM * chance.uniform(0.9, 1.0001), chance.uniform(0, math.tau)
        a = math.radians(lat)
        there = math.asin(
            max(
                -1,
                min(1, math.sin(a) * math.cos(way) + math.cos(a) * math.sin(way) * math.cos(turn)),
            )
        )
        east = math.atan2(
            math.sin(turn) * math.sin(way) * math.cos(a),
            math.cos(way) - math.sin(a) * math.sin(there),
        )
        for name, value in zip(
            columns, (lat, lon, math.degrees(there), lon + math.degrees(east), km), strict=True
        ):
            columns[name].append(value)
    return columns


def assert_met_once(
    spark: SparkSession, cells: str, cell: str, *, accepted: int, touched: int
) -> None:
    """Of pairs within the radius, more than `accepted`: `cell` is exactly one of `cells`, which are
    at most `touched`."""
    near_enough = near.exact("lat1", "lon1", "lat2", "lon2", "km")
    sql = (
        f"SELECT count_if(ok) AS accepted, count_if(ok AND met <> 1) AS lost, max(met) AS most,"  # noqa: S608
        f" max(touched) AS touched FROM (SELECT {near_enough} AS ok, size({cells}) AS touched,"
        f" size(filter({cells}, candidate -> candidate = {cell})) AS met FROM pairs)"
    )
    row = spark.sql(sql).first()
    assert row is not None
    assert row["accepted"] > accepted
    assert row["lost"] == 0
    assert row["most"] == 1
    assert row["touched"] <= touched


def test_pairs_within_the_radius_share_exactly_one_cell(spark: SparkSession) -> None:
    spark.createDataFrame(pa.table(_pairs(20261116, 1500))).createOrReplaceTempView("pairs")
    level = near.level("km")
    cover = near.cover("lat1", "lon1", "km", level)
    cell = near.cell("lat2", "lon2", level)
    assert_met_once(spark, cover, cell, accepted=1000, touched=8)


def test_filters_of_datasets_mean_the_same(spark: SparkSession) -> None:
    """Of points at about the radius, too: the distance itself agrees but for its last digits."""
    pairs = _pairs(20261117, 4000)
    spark.createDataFrame(pa.table(pairs)).createOrReplaceTempView("pairs")
    accepted = near.exact("lat1", "lon1", "lat2", "lon2", "km")
    there = spark.sql(f"SELECT km, {accepted} AS near FROM pairs").collect()  # noqa: S608
    for row, (lat1, lon1, lat2, lon2, km) in zip(
        there, zip(*pairs.values(), strict=True), strict=True
    ):
        apart = distance_km(lat1, lon1, lat2, lon2)
        assert row["near"] == (apart <= km) or apart == pytest.approx(km, rel=1e-12, abs=1e-9)


def test_null_and_negative_never_match(spark: SparkSession) -> None:
    for lat, km in (("NULL", "5"), ("0", "-1"), ("0", "NULL")):
        met = near.exact(lat, "0", "0", "0", km)
        cells = near.cover(lat, "0", km, near.level(km))
        row = spark.sql(
            f"SELECT coalesce({met}, false) AS met, coalesce(size({cells}), 0) AS n"
        ).first()
        assert row is not None
        assert not row["met"]
        assert row["n"] <= 0


@pytest.mark.parametrize(("km", "level"), [(0.0, -3), (0.03, -3), (1.0, 2), (5.0, 4), (1e5, 15)])
def test_the_level_of_a_radius(spark: SparkSession, km: float, level: int) -> None:
    assert level_of(km) == level
    row = spark.sql(f"SELECT {near.level(repr(km))} AS level").first()
    assert row is not None
    assert row["level"] == level


def test_centres_of_balls_that_hold_a_point_lie_in_one_of_the_cells_around_it(
    spark: SparkSession,
) -> None:
    spark.createDataFrame(pa.table(_pairs(20261116, 4000))).createOrReplaceTempView("pairs")
    levels = f"ARRAY({', '.join(map(str, near.LEVELS))})"
    centre = near.cell("lat1", "lon1", near.level("km"))
    around = near.cells_around("lat2", "lon2", levels)
    assert_met_once(spark, around, centre, accepted=3000, touched=8 * len(near.LEVELS))
