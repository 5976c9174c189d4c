"""What benchmarks find: ratios, targets, and the file that keeps them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from bench.__main__ import BENCHES, main
from bench.findings import Finding, save


def finding(ours: float, baseline: float, **more: object) -> Finding:
    given = {"claim": "c", "unit": "ms", "baseline_is": "b", "ours": ours, "baseline": baseline}
    return msgspec.convert(given | more, Finding)


def test_a_ratio_says_how_many_times_better_ours_is() -> None:
    assert finding(300.0, 100.0).ratio == 3.0
    assert finding(50.0, 100.0, lower_is_better=True).ratio == 2.0


def test_a_target_is_met_on_the_side_that_is_better() -> None:
    assert finding(200.0, 900.0, lower_is_better=True, target=250.0).met is True
    assert finding(300.0, 900.0, lower_is_better=True, target=250.0).met is False
    assert finding(300.0, 100.0, target=250.0).met is True
    assert finding(300.0, 100.0).met is None


def test_every_run_keeps_its_figures_and_what_they_depend_on(tmp_path: Path) -> None:
    file = save("log", [finding(300.0, 100.0)], quick=True, folder=tmp_path / "results")
    kept = msgspec.json.decode(file.read_bytes())
    assert kept["findings"][0]["ratio"] == 3.0
    assert (kept["bench"], kept["quick"]) == ("log", True)
    assert kept["machine"]["cores"] >= 1


def test_an_unknown_name_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["log", "speed"])
    assert stopped.value.code == 2
    assert "there are " + ", ".join(BENCHES) in capsys.readouterr().err


def test_group_commit_is_measured_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.log.Kafka.missing", lambda: "files are enough here")
    main(["log", "--quick", "--results", str(tmp_path)])
    [file] = tmp_path.glob("*-log.json")
    kept = msgspec.json.decode(file.read_bytes())
    assert [each["claim"] for each in kept["findings"]] == [
        f"durable publishes, {publishers} at once" for publishers in (1, 16, 64)
    ]
    assert all(each["ours"] > 0 and each["baseline"] > 0 for each in kept["findings"])
