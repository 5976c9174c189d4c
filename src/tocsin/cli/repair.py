"""`tocsin repair`: what is damaged in a publication log, and how it is given up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.output import err, out, show_table
from tocsin.cli.progress import Watch
from tocsin.cli.services import Config, Data, Log, Set, Store, settings_from
from tocsin.errors import SettingError
from tocsin.settings import Settings
from tocsin.storage.identity import belongs_to_another, read_mark
from tocsin.storage.log.kafka import is_kafka
from tocsin.storage.log.segments.damage import Hole
from tocsin.storage.log.segments.repair import Repair
from tocsin.storage.store import Store as OpenStore


def register(app: typer.Typer) -> None:
    app.command()(repair)


def repair(
    data: Data = None,
    cut: Annotated[
        bool, typer.Option("--cut", help="give up what is damaged; all whole records stay")
    ] = False,
    copy: Annotated[bool, typer.Option(help="keep a copy of each damaged file beside it")] = True,
    log: Log = None,
    store: Store = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Look for damage in the publication log of a cluster that is stopped, and mend it."""
    settings = settings_from(config, set_, data=data, log=log, store=store)
    if is_kafka(settings.log):
        raise SettingError(
            "the publication log is on Kafka, which looks after its files itself",
            field="log",
            hint="tocsin repair is for a log of files, in the data directory",
        )
    directory = Path(settings.log).absolute() if settings.log else _data(settings) / "log"
    with Repair(directory) as repairing:
        found, segments = _look(repairing)
        untold = [name for name in repairing.datasets if repairing.untold(name)]
        if not found and not untold:
            datasets = len(repairing.datasets)
            out.print(f"no damage: {segments} segments of {datasets} datasets are whole")
            return
        _show(found)
        if not cut:
            err.print("tocsin repair --cut gives these records up, and keeps all others")
            raise typer.Exit(1)
        with OpenStore.open(_store(settings)) as opened:
            mark = read_mark(directory)
            if mark is not None and mark.id != opened.id:
                raise belongs_to_another(f"the log in {directory}", opened.mark, mark, "store")
            for dataset, holes in found.items():
                repairing.mend(dataset, holes, copy=copy)
            for dataset in {*found, *untold}:
                repairing.tell(dataset, opened.gaps.records_lost)
        out.print("repaired: the cluster can start, and tells subscribers what is lost")


def _data(settings: Settings) -> Path:
    return Path(settings.data).absolute()


def _store(settings: Settings) -> str:
    """An address at which there is a store: a new one would know of no subscriber."""
    file = _data(settings) / "store.db"
    if not settings.store and not file.exists():
        raise SettingError(
            f"there is no store in {_data(settings)}, and subscribers have to be told",
            field="store",
            hint="name the store that the cluster runs with: --store ADDRESS",
        )
    return settings.store or f"sqlite:///{file}"


def _look(repairing: Repair) -> tuple[dict[str, list[Hole]], int]:
    """What is damaged in each dataset, and how many segments were read."""
    found: dict[str, list[Hole]] = {}
    segments = 0
    with Watch(err) as watch:
        watch.begin("datasets", len(repairing.datasets))
        for dataset in repairing.datasets:
            for holes in repairing.look(dataset):
                segments += 1
                if holes:
                    found.setdefault(dataset, []).extend(holes)
            watch.advance(1)
    return found, segments


def _show(found: dict[str, list[Hole]]) -> None:
    rows = [
        [dataset, hole.first, hole.end, hole.end - hole.first, hole.records, hole.path]
        for dataset, holes in found.items()
        for hole in holes
    ]
    if rows:
        show_table(["dataset", "from", "to", "bytes", "records (about)", "file"], rows)
