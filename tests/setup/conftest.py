"""One wheel for all tests of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from setup.installation import Environment, build_wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def client(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What `pip install tocsin` gives."""
    return Environment(tmp_path_factory.mktemp("client") / "env", wheel)
