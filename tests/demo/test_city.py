"""The demo's statements: the channels of BAD, Table III, in compressed time."""

from __future__ import annotations

import re

import pytest

from tocsin.demo import city


def test_channels_have_the_periods_of_the_papers_table() -> None:
    assert [channel.period_s for channel in city.CHANNELS] == [10, 20, 30, 60, 10, 10, 10]


def test_every_statement_is_declared_once_datasets_first() -> None:
    heads = [statement.split("(")[0] for statement in city.statements()]
    assert heads[:3] == [f"CREATE DATASET {name} " for name in city.DATASETS]
    assert heads[3:] == [f"CREATE REPETITIVE CHANNEL {channel.name}" for channel in city.CHANNELS]
    assert len(set(heads)) == 10


@pytest.mark.parametrize("channel", city.CHANNELS, ids=lambda channel: channel.name)
def test_a_channel_uses_exactly_the_parameters_it_declares(channel: city.PeriodicChannel) -> None:
    assert set(re.findall(r":(\w+)", channel.query)) == set(channel.names)


@pytest.mark.parametrize("channel", city.CHANNELS, ids=lambda channel: channel.name)
def test_a_channel_reads_only_declared_columns(channel: city.PeriodicChannel) -> None:
    tables = {"e": "emergencies", "s": "shelters", "u": "locations"}
    for alias, column in re.findall(r"\b([esu])\.(\w+)", channel.query):
        assert re.search(rf"\b{column} [A-Z]+", city.DATASETS[tables[alias]])
        assert re.search(rf"(NEW |JOIN ){tables[alias]} {alias}\b", channel.query)


@pytest.mark.parametrize(
    ("period_s", "speed", "here_s"), [(10, 1, 10), (10, 4, 3), (60, 60, 1), (10, 60, 1), (60, 7, 9)]
)
def test_a_period_is_compressed_to_whole_seconds_and_never_below_one(
    period_s: int, speed: float, here_s: int
) -> None:
    assert city.period_at(period_s, speed) == here_s


def test_a_statement_carries_its_compressed_period() -> None:
    by_place = city.CHANNELS[1]
    assert "EVERY INTERVAL 20 SECONDS AS" in by_place.statement(1)
    assert "EVERY INTERVAL 5 SECONDS AS" in by_place.statement(4)
    assert "EVERY INTERVAL 1 SECOND AS" in by_place.statement(60)


def test_the_opening_lines_say_which_periods_are_run() -> None:
    told = city.describe(20)
    assert "10, 20, 30, 60, 10, 10, 10 s in the city" in told
    assert "1, 1, 2, 3, 1, 1, 1 s here" in told


def test_places_have_distinct_names_and_stand_two_kilometres_apart() -> None:
    assert len({place.name for place in city.PLACES}) == 64
    west, east = city.PLACES[:2]
    north_km, east_km = city.apart(west.lat, west.lon, east.lat, east.lon)
    assert abs(north_km) < 0.01
    assert abs(east_km - 2) < 0.01
