"""A trace of a page cache under a policy: what came of each operation, written as a table."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from tocsin.errors import InvalidInput
from tocsin.lab.simulators.page_cache.live import run_live
from tocsin.lab.simulators.page_cache.outcome import PageOutcome, Steps
from tocsin.lab.trace.pages import PageTrace
from tocsin.policies.page import PagePolicy, portion_names

LONG = 200_000
"""Operations from which on compiling pays."""


def replay_pages(
    trace: PageTrace, policy: PagePolicy, capacity_bytes: int
) -> tuple[PageOutcome, Steps]:
    if len(trace.operations) < LONG:
        return run_live(trace.operations, policy, capacity_bytes)
    from tocsin.lab.simulators.page_cache.simulator import simulate_steps

    return simulate_steps(trace.operations, policy, capacity_bytes)


def write_steps(steps: Steps, trace: PageTrace, policy: PagePolicy, file: Path) -> None:
    """A row an operation: its outcome, and the pages that left for it, in order and separated by
    blanks, in a divided cache each with its portion: `a:push b:access`."""
    labels = [f":{name}" if name else "" for name in portion_names(policy)]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("outcome", "evicted"))
    for outcome, evicted in steps.in_words():
        gone = " ".join(trace.names[page] + labels[portion] for page, portion in evicted)
        table.writerow((outcome, gone))
    try:
        file.write_text(text.getvalue(), encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror}", field="steps") from None
