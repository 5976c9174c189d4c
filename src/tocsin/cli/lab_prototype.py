"""`tocsin lab prototype`: the live system under several policies, beside a prediction."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tocsin.cli.output import err, show_table
from tocsin.cli.services import Config, Master, Set, settings_from
from tocsin.cli.values import listed, sizes_from
from tocsin.service.logs import configure_logs
from tocsin.settings import SHORT_LIVED_JAVA


def register(lab: typer.Typer) -> None:
    lab.command()(prototype)


def prototype(
    policies: Annotated[
        list[str] | None, typer.Option(help="policies, separated by commas or given repeatedly")
    ] = None,
    sizes: Annotated[
        list[str] | None, typer.Option(help="cache sizes of each broker, such as 100KB,1MB")
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="how long each run plays")] = 30,
    subscribers: Annotated[int, typer.Option(min=1, help="people in the city")] = 400,
    speed: Annotated[float, typer.Option(min=0.1, help="seconds of the city in one of ours")] = 60,
    seed: Annotated[int, typer.Option(help="another seed, another hour")] = 1,
    output: Annotated[Path, typer.Option("--out", help="directory")] = Path("lab/prototype"),
    master: Master = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Play the demo's city under each policy and size; set what a recording predicts beside it.

    Takes a run for each policy and size, and one without a cache (BAD, Fig. 7).
    """
    from tocsin.demo.driver import Asked
    from tocsin.demo.show import Show
    from tocsin.lab.prototype.prototype import Point, points_of, run_prototype
    from tocsin.lab.prototype.report import PICTURE, write_prototype

    points = points_of(
        listed(policies) or ["lru", "lsc", "ttl", "homing"],
        sizes_from(sizes) or [100_000, 400_000],
    )
    settings = settings_from(config, set_, master=master, data=Path(tempfile.gettempdir()))
    if not settings.java_options:
        settings = msgspec.structs.replace(settings, java_options=SHORT_LIVED_JAVA, warm_up=False)
    configure_logs("warning", settings.log_format)
    asked = Asked(seconds=seconds, subscribers=subscribers, speed=speed, seed=seed)

    def told(number: int, point: Point) -> None:
        size = f", {point.size_bytes:,} bytes" if point.size_bytes else ""
        show.line(f"run {number + 1} of {len(points)}: {point.policy}{size}")

    with Show(err) as show:
        rows = run_prototype(asked, settings, points, output, show, told)
    write_prototype(rows, output)
    show_table(
        [
            *("policy", "size", "hits", "predicted", "at once"),
            *("mean ms", "predicted", "fetched", "predicted"),
        ],
        [
            [
                row.measured.policy,
                f"{row.measured.size_bytes:,}",
                f"{row.measured.hit_ratio:.3f}",
                f"{row.predicted.hit_ratio:.3f}",
                f"{row.predicted.at_once_hit_ratio:.3f}",
                f"{row.measured.latency_mean_ms:.1f}",
                f"{row.predicted.latency_mean_ms:.1f}",
                f"{row.measured.fetched_bytes:,}",
                f"{row.predicted.fetched_bytes:,}",
            ]
            for row in rows
        ],
    )
    err.print(f"points and picture: {output / PICTURE}", soft_wrap=True, highlight=False)
    if not all(row.measured.promises_held for row in rows):
        err.print("a promise was broken in one of the runs", style="red")
        raise typer.Exit(1)
