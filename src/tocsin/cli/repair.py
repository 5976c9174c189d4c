"""`tocsin repair`: what is damaged in a publication log, and how it is given up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.options import Config, Data, Log, Set, Store, settings_from
from tocsin.cli.output import err, out, show_table
from tocsin.cli.progress import Watch
from tocsin.errors import SettingError
from tocsin.settings import Settings

if TYPE_CHECKING:
    from tocsin.storage.log.segments.damage import Hole
    from tocsin.storage.log.segments.repair import Repair
    from tocsin.storage.store.store import Store as OpenStore


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
    from tocsin.storage.log.segments.repair import Repair

    settings = settings_from(config, set_, data=data, log=log, store=store)
    directory = _log_directory(settings)
    with Repair(directory) as repairing:
        damage, segments = _look(repairing)
        unreported = [name for name in repairing.datasets if repairing.unreported(name)]
        if not damage and not unreported:
            datasets = len(repairing.datasets)
            out.print(f"no damage: {segments} segments of {datasets} datasets are whole")
            return
        _show(damage)
        if not cut:
            err.print("tocsin repair --cut gives these records up, and keeps all others")
            raise typer.Exit(1)
        with _open_store(settings, directory) as opened:
            for dataset, holes in damage.items():
                repairing.mend(dataset, holes, copy=copy)
            for dataset in {*damage, *unreported}:
                repairing.report(dataset, opened.gaps.records_lost)
        out.print("repaired: the cluster can start, and tells subscribers what is lost")


def _log_directory(settings: Settings) -> Path:
    from tocsin.storage.log.kafka import is_kafka

    if is_kafka(settings.log):
        raise SettingError(
            "the publication log is on Kafka, which looks after its files itself",
            field="log",
            hint="tocsin repair is for a log of files, in the data directory",
        )
    return Path(settings.log).absolute() if settings.log else _data(settings) / "log"


@contextmanager
def _open_store(settings: Settings, log_directory: Path) -> Iterator[OpenStore]:
    """The store that belongs to the log."""
    from tocsin.storage.identity import belongs_to_another, read_mark
    from tocsin.storage.store.store import Store as OpenStore

    with OpenStore.open(_store(settings)) as opened:
        mark = read_mark(log_directory)
        if mark is not None and mark.id != opened.id:
            raise belongs_to_another(f"the log in {log_directory}", opened.mark, mark, "store")
        yield opened


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
    damage: dict[str, list[Hole]] = {}
    segments = 0
    with Watch(err) as watch:
        watch.begin("datasets", len(repairing.datasets))
        for dataset in repairing.datasets:
            for holes in repairing.look(dataset):
                segments += 1
                if holes:
                    damage.setdefault(dataset, []).extend(holes)
            watch.advance(1)
    return damage, segments


def _show(damage: dict[str, list[Hole]]) -> None:
    rows = [
        [dataset, hole.first, hole.end, hole.end - hole.first, hole.records, hole.path]
        for dataset, holes in damage.items()
        for hole in holes
    ]
    if rows:
        show_table(["dataset", "from", "to", "bytes", "records (about)", "file"], rows)
