"""What `tocsin lab run` is asked: which points of an experiment, and where they are computed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from tocsin.cli.values import listed, pairs_from, sizes_from
from tocsin.errors import InvalidInput

if TYPE_CHECKING:
    from tocsin.lab.spec.experiment import Experiment
    from tocsin.lab.spec.plan import Options

DIRECTORY = Path("lab")


class Selection(Struct, frozen=True, kw_only=True):
    """Which points are run."""

    quick: Annotated[
        bool, typer.Option("--quick", help="a smaller workload, fewer sizes and seeds: a minute")
    ] = False
    seeds: Annotated[int | None, typer.Option(help="how many seeds")] = None
    policies: Annotated[
        list[str] | None, typer.Option(help="policies, separated by commas or given repeatedly")
    ] = None
    sizes: Annotated[
        list[str] | None,
        typer.Option(help="where on the x axis: cache sizes such as 50MB,100MB; records: 500"),
    ] = None
    variants: Annotated[list[str] | None, typer.Option(help="which variants of the workload")] = (
        None
    )
    readings: Annotated[list[str] | None, typer.Option(hidden=True)] = None  # of old: variants
    bound_seeds: Annotated[
        int | None, typer.Option(help="for how many seeds the bound is computed; 0 leaves it out")
    ] = None
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of the workload: FIELD=VALUE")
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(help="recorded workloads, a file or a directory of them: a further variant"),
    ] = None

    def options(self, live: bool) -> Options:
        from tocsin.lab.spec.plan import Options

        return Options(
            quick=self.quick,
            seeds=self.seeds,
            bound_seeds=self.bound_seeds,
            policies=listed(self.policies),
            variants=listed([*(self.variants or ()), *(self.readings or ())] or None),
            values=sizes_from(self.sizes),
            settings=pairs_from(self.set_),
            data=self.data,
            live=live,
        )


class Site(Struct, frozen=True, kw_only=True):
    """Where points are computed, and kept."""

    output: Annotated[
        Path | None, typer.Option("--out", help="directory; finished points in it are kept")
    ] = None
    master: Annotated[str, typer.Option(help="where Spark runs, such as spark://host:7077")] = (
        "local[*]"
    )
    live: Annotated[
        bool, typer.Option("--live", help="play it through the whole system, beside a prediction")
    ] = False
    log: Annotated[
        str | None, typer.Option(help="Kafka for --live, kafka://host:9092/lab; else its own")
    ] = None
    store: Annotated[
        str | None, typer.Option(help="database for --live, mariadb://…; else its own MariaDB")
    ] = None
    only_plan: Annotated[bool, typer.Option("--plan", help="only say what it would do")] = False

    def refuse_servers_unless_live(self) -> None:
        for name in self._servers():
            if not self.live:
                raise InvalidInput(f"--{name} is for a live run", field=name, hint="add --live")

    def refuse_servers_of_its_own(self, experiments: Sequence[Experiment]) -> None:
        for name in self._servers():
            for experiment in experiments:
                if experiment.live is not None and not experiment.live.servers:
                    raise InvalidInput(
                        f"{experiment.name} --live has its own {name}",
                        field=name,
                        hint=f"leave --{name} out",
                    )

    def _servers(self) -> list[str]:
        given = {"log": self.log, "store": self.store}
        return [name for name, address in given.items() if address is not None]

    def directory(self, experiment: Experiment, quick: bool, several: bool) -> Path:
        """Live points of other settings than the simulated ones have a directory of their own."""
        live = experiment.live if self.live else None
        apart = live is not None and bool(live.full.settings)
        name = experiment.name + "-live" * apart + "-quick" * quick
        if self.output is None:
            return DIRECTORY / name
        return self.output / name if several else self.output
