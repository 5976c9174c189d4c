"""Draws many seeds, says what was accepted of each feature, and shows every mismatch."""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tocsin.settings import Settings
from tocsin.spark.session import build_session

from .queries import draw_query
from .running import VARIANTS, Laboratory, Outcome


@contextmanager
def session() -> Iterator[SparkSession]:
    with tempfile.TemporaryDirectory() as data:
        settings = Settings(data=Path(data), master="local[2]")
        spark = build_session(settings, app_name="tocsin-differential")
        yield spark
        spark.stop()


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--seeds", type=int, default=1000)
    reader.add_argument("--first", type=int, default=0)
    reader.add_argument("--threads", type=int, default=2)
    reader.add_argument("--refusals", action="store_true", help="show each kind of refusal")
    given = reader.parse_args()
    outcomes: list[Outcome] = []
    broken = 0
    with session() as spark, ThreadPoolExecutor(given.threads) as pool:
        laboratory = Laboratory(spark)
        for number in range(VARIANTS):
            laboratory.variant(number)

        def attempt(seed: int) -> Outcome | tuple[int, Exception]:
            try:
                return laboratory.run(seed)
            except Exception as error:
                return seed, error

        for outcome in pool.map(attempt, range(given.first, given.first + given.seeds)):
            if isinstance(outcome, tuple):
                broken += 1
                seed, error = outcome
                print(f"seed {seed} broke: {type(error).__name__}: {str(error)[:600]}")
                print(f"  {draw_query(seed).text}", flush=True)
                continue
            outcomes.append(outcome)
            if outcome.difference:
                where = f"seed {outcome.seed} ({outcome.form})"
                print(f"{where}: {outcome.asked.text}\n {outcome.difference}\n", flush=True)
    summary(outcomes, refusals=given.refusals)
    different = sum(bool(outcome.difference) for outcome in outcomes)
    print(f"{len(outcomes)} drawn, {different} differ, {broken} broke")
    return 1 if different or broken else 0


def summary(outcomes: list[Outcome], *, refusals: bool) -> None:
    drawn: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    for outcome in outcomes:
        drawn.update(outcome.asked.features)
        if not outcome.refusal:
            accepted.update(outcome.asked.features)
    for feature in sorted(drawn):
        print(f"  {feature}: {accepted[feature]} of {drawn[feature]} accepted")
    forms = Counter(outcome.form for outcome in outcomes)
    print(f"  forms: {dict(forms)}; open: {sum(outcome.opened for outcome in outcomes)} sets")
    print(f"  standing: {dict(Counter(outcome.form for outcome in outcomes if outcome.stands))}")
    print(f"  with rows: {sum(outcome.rows > 0 for outcome in outcomes)}")
    if refusals:
        kinds: dict[str, list[Outcome]] = {}
        for outcome in outcomes:
            if outcome.refusal:
                kinds.setdefault(re.sub(r"[\d`]+|'[^']*'", "", outcome.refusal), []).append(outcome)
        for those in sorted(kinds.values(), key=len, reverse=True):
            print(
                f"{len(those)} × {those[0].refusal}\n"
                f"      seed {those[0].seed}: {those[0].asked.text}"
            )


if __name__ == "__main__":
    raise SystemExit(main())
