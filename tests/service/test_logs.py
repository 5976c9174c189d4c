"""What services write to their logs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from tocsin.service.serving import configure_logs

SECRET = "a" + "secret" * 5


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


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
