"""The page of policies is what their registries say, and its example is a policy."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tocsin.policies import FAMILIES, parse_policy
from tocsin.policies.listing import page

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reference" / "policies.md"
TRIED = """
from lab.small_day import first_minutes
from tocsin.cli import app
from tocsin.lab.simulators.result_cache.live import run_live
from tocsin.lab.simulators.result_cache.simulator import simulate_steps
from tocsin.policies import parse_policy, policy_names

assert "widest" in policy_names()
policy = parse_policy("widest")
run, steps = simulate_steps(first_minutes(), policy, 10_000)
assert run.evicted > 50
assert (steps == run_live(first_minutes(), policy, 10_000)[1]).all()
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


@pytest.mark.timeout(120)
def test_the_printed_policy_runs_live_and_compiled() -> None:
    printed = PAGE.read_text()
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", printed, re.MULTILINE | re.DOTALL)
    (command,) = re.findall(r"`tocsin (lab run [^`]+)`", printed)
    tried = TRIED.replace("COMMAND", repr([*command.split(), "--plan"]))
    done = subprocess.run(
        [sys.executable, "-c", f"{snippet}\n{tried}"],
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "2 policies" in done.stdout
