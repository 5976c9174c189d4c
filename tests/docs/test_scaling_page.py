"""The page about scaling: its commands run as printed, its tables are what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from docs.printed import PAGES, run_as_printed
from tocsin.lab.capacity.costs import Costs, decode, reference

MEASURED = ("embedded",)  # profiles whose costs come with the package

TEXT = (PAGES / "scaling.md").read_text()


def measured(profile: str) -> list[dict[str, Any]]:
    document = msgspec.json.decode((PAGES / "scaling" / f"{profile}.json").read_bytes())
    findings: list[dict[str, Any]] = document["findings"]
    return findings


def prices(costs: Costs) -> list[str]:
    columns = ("run", "run_per_1000_sets", "record", "result", "copy", "delivery", "delivery_apart")
    return [
        f"| {name} | {price.idle_cores:.3f} | "
        + " | ".join(_price(getattr(price, f"us_per_{column}")) for column in columns)
        + " |"
        for name, price in costs.processes.items()
    ]


def steps(findings: list[dict[str, Any]]) -> list[str]:
    """Offered rates beside what was measured and what the simulation said of them."""
    rows = []
    for finding in findings:
        details = finding["details"]
        if "sets" not in details:
            continue
        for was, said in zip(details["measured"], details["simulated"], strict=True):
            figures = (was["achieved"], said["achieved"], was["p50_ms"], said["p50_ms"])
            rows.append(
                f"| {details['sets']:,} | {was['offered']:,.0f} | {was['others_cores']:.1f} | "
                + " | ".join(f"{figure:,.0f}" for figure in figures)
                + " |"
            )
    return rows


def test_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(run_as_printed("scaling.md", monkeypatch, capsys)) == 3


@pytest.mark.parametrize("profile", MEASURED)
def test_prices_of_the_page_are_those_of_the_reference(profile: str) -> None:
    rows = prices(reference(profile))
    assert len(rows) >= 6
    for row in rows:
        assert row in TEXT


def test_the_reference_is_what_its_run_measured() -> None:
    for profile in MEASURED:
        costs = measured(profile)[0]["details"]["costs"]
        assert decode(msgspec.json.encode(costs), profile) == reference(profile)


@pytest.mark.parametrize("profile", MEASURED)
def test_the_simulation_stands_beside_what_was_measured(profile: str) -> None:
    rows = steps(measured(profile))
    assert len(rows) >= 6
    for row in rows:
        assert row in TEXT


def test_the_page_tells_how_far_the_simulation_was_off() -> None:
    findings = measured("embedded")
    apart = [f"{each['ours']:.1f}" for each in findings if "achieved at most" in each["claim"]]
    assert f"{', '.join(apart[:-1])} and {apart[-1]} times" in " ".join(TEXT.split())
    targets = [each["met"] for each in findings if each["met"] is not None]
    assert (targets.count(False), len(targets)) == (3, 4)
    assert "in three of four figures" in TEXT


def _price(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
