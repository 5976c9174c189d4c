"""The page of policies is what their registries say, and its examples are policies: each is added
to a copy of the tree as the one file that it is, and runs there, live and compiled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tocsin
from tocsin.policies import FAMILIES, parse_policy
from tocsin.policies.listing import page

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reference" / "policies.md"
EVICTING = """
from lab.small_day import first_minutes
from tocsin.cli import app
from tocsin.lab.simulators.result_cache.live import run_live
from tocsin.lab.simulators.result_cache.simulator import simulate_steps
from tocsin.policies import parse_policy, policy_names

assert "widest" in policy_names()
hits = set()
for text in ("widest", "widest(weight=1000)"):
    policy = parse_policy(text)
    run, steps = simulate_steps(first_minutes(), policy, 10_000)
    assert run.evicted > 50
    assert (steps == run_live(first_minutes(), policy, 10_000)[1]).all()
    hits.add(run.hits)
assert len(hits) == 2, "its parameter counts"
app(COMMAND, standalone_mode=False)
"""
KEEPING_PAGES = """
from tocsin.cli import app
from tocsin.lab.simulators.page_cache.live import run_live
from tocsin.lab.simulators.page_cache.simulator import simulate_steps
from tocsin.lab.workloads.pages.news import NewsSettings, news
from tocsin.policies.page import page_policy_names, parse_page_policy

assert "followed" in page_policy_names()
operations = next(iter(news(NewsSettings(servers=1, requests=2_000, quality=0.25), 5).by_server()))
hits = set()
for text in ("followed", "followed(doubt=100000)"):
    policy = parse_page_policy(text)
    outcome, steps = simulate_steps(operations, policy, 300_000)
    live, live_steps = run_live(operations, policy, 300_000)
    assert list(steps.in_words()) == list(live_steps.in_words())
    assert outcome.hits == live.hits > 100
    hits.add(outcome.hits)
assert len(hits) == 2, "what it learns counts"
app(COMMAND, standalone_mode=False)
"""


def test_page_is_what_the_registries_say() -> None:
    anew = "write it anew: python -m tocsin.policies.listing > docs/reference/policies.md"
    assert PAGE.read_text() == page(), anew


def test_every_policy_is_listed_as_it_can_be_written() -> None:
    tables = PAGE.read_text().split("## Admission")[1]
    listed = re.findall(r"^\| `(\w+)=([^`]+)` \|", tables, re.MULTILINE)
    assert listed == [(f, FAMILIES[f][name].call) for f in FAMILIES for name in FAMILIES[f]]


def test_every_example_can_be_chosen() -> None:
    section = PAGE.read_text().split("| you write |")[1].split("\n\n")[0]
    examples = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert len(examples) == 5
    for text in examples:
        assert parse_policy(text).text == text


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "tried"), [("result/eviction/widest", EVICTING), ("page/followed", KEEPING_PAGES)]
)
def test_the_printed_policy_is_one_file_that_runs_live_and_compiled(
    name: str, tried: str, tmp_path: Path
) -> None:
    printed = PAGE.read_text()
    snippet = printed.split(f"`{name}.py`:\n\n```python\n")[1].split("```")[0]
    command = printed.split(snippet)[1].split("`tocsin ")[1].split("`")[0]
    copied = tmp_path / "tocsin"
    shutil.copytree(
        Path(tocsin.__file__).parent, copied, ignore=shutil.ignore_patterns("__pycache__")
    )
    (copied / "policies" / f"{name}.py").write_text(snippet)
    done = subprocess.run(
        [sys.executable, "-c", tried.replace("COMMAND", repr([*command.split(), "--plan"]))],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "2 policies" in done.stdout
