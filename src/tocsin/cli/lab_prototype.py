"""`tocsin lab prototype`: the live system under several policies, beside a prediction."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from tocsin.cli.demo import Seed, Speed, Subscribers, short_lived
from tocsin.cli.options import Config, Master, Set, settings_from
from tocsin.cli.output import err, show_table
from tocsin.cli.values import listed, sizes_from

if TYPE_CHECKING:
    from tocsin.demo.driver import Course
    from tocsin.lab.prototype.comparison import Row

COLUMNS = (
    *("policy", "size", "hits", "predicted", "at once"),
    *("mean ms", "predicted", "fetched", "predicted"),
)


class Runs(Struct, frozen=True, kw_only=True):
    """What each run plays."""

    policies: Annotated[
        list[str] | None, typer.Option(help="policies, separated by commas or given repeatedly")
    ] = None
    sizes: Annotated[
        list[str] | None, typer.Option(help="cache sizes of each broker, such as 100KB,1MB")
    ] = None
    seconds: Annotated[float, typer.Option(min=1, help="how long each run plays")] = 30
    subscribers: Subscribers = 400
    speed: Speed = 60
    seed: Seed = 1

    def course(self) -> Course:
        from tocsin.demo.driver import Course

        return Course(
            seconds=self.seconds, subscribers=self.subscribers, speed=self.speed, seed=self.seed
        )


def prototype(
    runs: Runs,
    output: Annotated[Path, typer.Option("--out", help="directory")] = Path("lab/prototype"),
    master: Master = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Play the demo's city under each policy and size; set what a recording predicts beside it.

    Takes a run for each policy and size, and one without a cache (BAD, Figure 7).
    """
    from tocsin.demo.show import Show
    from tocsin.lab.prototype.comparison import Point, points_of, run_prototype
    from tocsin.lab.prototype.report import PICTURE, write_prototype
    from tocsin.service.logs import configure_logs

    points = points_of(
        listed(runs.policies) or ["lru", "lsc", "ttl", "return-rate"],
        sizes_from(runs.sizes) or [100_000, 400_000],
    )
    settings = short_lived(
        settings_from(config, set_, master=master, data=Path(tempfile.gettempdir()))
    )
    configure_logs("warning", settings.log_format)

    def announce(number: int, point: Point) -> None:
        size = f", {point.size_bytes:,} bytes" if point.size_bytes else ""
        show.line(f"run {number + 1} of {len(points)}: {point.policy}{size}")

    with Show(err) as show:
        rows = run_prototype(runs.course(), settings, points, output, show, announce)
    write_prototype(rows, output)
    show_table(list(COLUMNS), [_cells(row) for row in rows])
    err.print(f"points and picture: {output / PICTURE}", soft_wrap=True, highlight=False)
    if not all(row.measured.promises_held for row in rows):
        err.print("a promise was broken in one of the runs", style="red")
        raise typer.Exit(1)


def _cells(row: Row) -> list[str]:
    measured, predicted = row.measured, row.predicted
    return [
        measured.policy,
        f"{measured.size_bytes:,}",
        f"{measured.hit_ratio:.3f}",
        f"{predicted.hit_ratio:.3f}",
        f"{predicted.at_once_hit_ratio:.3f}",
        f"{measured.latency_mean_ms:.1f}",
        f"{predicted.latency_mean_ms:.1f}",
        f"{measured.fetched_bytes:,}",
        f"{predicted.fetched_bytes:,}",
    ]
