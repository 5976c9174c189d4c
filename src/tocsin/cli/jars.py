"""Spark's jars, fetched before the first start: pip brings Python packages only."""

from __future__ import annotations

from tocsin.cli.output import err
from tocsin.cli.progress import Watch
from tocsin.errors import Unavailable
from tocsin.settings import Settings


def ensure_jars(settings: Settings) -> None:
    """Fetch what is missing. Without it a system of files alone still runs, and is told so; one
    with a Kafka, a database server or Delta tables cannot."""
    from tocsin.spark.jars import ATTEMPTS, SPARK, jar_directory, table_jar_sets

    missing = [jars for jars in (SPARK, *table_jar_sets(settings.tables)) if not jars.paths()]
    if not missing:
        return
    required = bool(settings.log or settings.store or settings.tables)
    reached = 0
    with Watch(err) as watch:

        def fetched(done: int, total: int) -> None:
            nonlocal reached
            if done == 0:
                reached = 0
                watch.begin(f"fetching Spark's jars into {jar_directory()}", total)
            watch.advance(done - reached)
            reached = done

        try:
            for jars in missing:
                jars.fetch(fetched, attempts=ATTEMPTS if required else 1)
        except Unavailable as error:
            if required:
                raise
            reason = error.message
        else:
            return
    err.print(
        f"{reason}; going on without them, and Spark writes its files more slowly",
        style="yellow",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
