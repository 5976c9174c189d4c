"""Where jars are kept: as named, else in the checkout, else in the user's cache."""

from __future__ import annotations

from pathlib import Path

from tocsin.cache_directory import VARIABLE, cache_directory


def test_the_variable_wins(tmp_path: Path) -> None:
    assert cache_directory({VARIABLE: str(tmp_path)}) == tmp_path


def test_a_checkout_keeps_its_own(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    assert cache_directory({}, package=tmp_path / "src" / "tocsin") == tmp_path / ".cache"


def test_an_environment_inside_a_project_is_no_checkout(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    package = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages" / "tocsin"
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert cache_directory(environ, package=package) == tmp_path / "cache" / "tocsin"


def test_without_a_named_cache_the_home_directory_has_one(tmp_path: Path) -> None:
    assert cache_directory({}, package=tmp_path / "tocsin").is_relative_to(Path.home())
