"""Settings come from file, environment and flags in that order, and a wrong one is named."""

from pathlib import Path

import pytest

from tocsin.errors import SettingError
from tocsin.settings import Settings, load


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
    with pytest.raises(SettingError) as told:
        load(environ=environ)
    assert told.value.field == field


def test_unreadable_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot read"):
        load(file=tmp_path / "missing.toml", environ={})
    broken = tmp_path / "broken.toml"
    broken.write_text("a = = b")
    with pytest.raises(SettingError, match="not TOML"):
        load(file=broken, environ={})
