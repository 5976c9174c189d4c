"""Settings come from file, environment and flags in that order, and a wrong one is named."""

from pathlib import Path

import pytest

from tocsin.errors import SettingError
from tocsin.settings import Settings, described, load


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "tocsin.toml"
    file.write_text('cluster_port = 1\nmaster = "yarn"\nhost = "0.0.0.0"\n')
    environ = {"TOCSIN_CLUSTER_PORT": "2", "TOCSIN_MASTER": "local[3]", "OTHER": "x"}
    settings = load({"cluster_port": 3, "data": None}, file=file, environ=environ)
    assert settings.cluster_port == 3
    assert settings.master == "local[3]"
    assert settings.host == "0.0.0.0"
    assert settings.data == Settings().data


@pytest.mark.parametrize(
    ("environ", "field"),
    [
        ({"TOCSIN_CLUSTER_PORT": "many"}, "cluster_port"),
        ({"TOCSIN_CLUSTERPORT": "1"}, "clusterport"),
        ({"TOCSIN_CACHE_BYTES": "-1"}, "cache_bytes"),
        ({"TOCSIN_FLUSH_INTERVAL_S": "0"}, "flush_interval_s"),
    ],
)
def test_wrong_setting_is_named(environ: dict[str, str], field: str) -> None:
    with pytest.raises(SettingError) as refusal:
        load(environ=environ)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("cache_bytes", "-1", "setting cache_bytes must be at least 0"),
        ("flush_interval_s", "0", "setting flush_interval_s must be greater than 0"),
        ("run_limit_s", "nan", "setting run_limit_s must be greater than 0"),
        ("real_time_slots", -1, "setting real_time_slots must be at least 0"),
        ("compact_files", 1, "setting compact_files must be at least 2"),
        ("broker_port", 65_536, "setting broker_port must be from 0 to 65535"),
        ("broker_port", "x", "setting broker_port must be a whole number, from 0 to 65535"),
        ("warm_up", "maybe", "setting warm_up must be true or false"),
        ("profile", "vast", "setting profile must be one of embedded, company"),
        ("log_format", "xml", "setting log_format must be one of auto, json, console"),
        ("log_level", 7, "setting log_level must be one of debug, info, warning, error, critical"),
        ("master", "yarn\n", "setting master must be one like local[*], local[4]"),
        ("host", 7, "setting host must be text"),
    ],
)
def test_refusal_says_what_the_setting_accepts(name: str, value: str | int, message: str) -> None:
    with pytest.raises(SettingError) as refusal:
        load({name: value}, environ={})
    assert refusal.value.message.startswith(message)
    assert refusal.value.field == name


def test_log_levels_may_be_in_capitals() -> None:
    assert load(environ={"TOCSIN_LOG_LEVEL": "WARNING"}).log_level == "warning"


def test_every_default_is_accepted() -> None:
    assert (
        load({setting.name: setting.default for setting in described()}, environ={}) == Settings()
    )


def test_unreadable_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot read"):
        load(file=tmp_path / "missing.toml", environ={})
    broken = tmp_path / "broken.toml"
    broken.write_text("a = = b")
    with pytest.raises(SettingError, match="not TOML"):
        load(file=broken, environ={})
