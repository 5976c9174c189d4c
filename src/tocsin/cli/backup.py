"""`tocsin backup`, `restore`, `migrate`: a whole system into a directory, out of it, elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.options import Config, Data, Log, Set, Store, Tables, settings_from
from tocsin.cli.output import err, out, show_table
from tocsin.cli.progress import Watch
from tocsin.cli.services import require_libraries
from tocsin.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tocsin.protocol.backup import Manifest
    from tocsin.storage.backup.comparison import Compared

Directory = Annotated[Path, typer.Argument(help="the directory of the backup")]
_HASH_DIGITS = 12


def register(app: typer.Typer) -> None:
    app.command()(backup)
    app.command()(restore)
    app.command()(migrate)


def backup(
    directory: Annotated[Path, typer.Argument(help="a new directory, or an unfinished backup")],
    data: Data = None,
    log: Log = None,
    store: Store = None,
    tables: Tables = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Copy a system into a directory, while it runs or not. Interrupted, it is repeated."""
    from tocsin.storage.backup.making import Backup
    from tocsin.storage.backup.places import Places

    settings = settings_from(config, set_, data=data, log=log, store=store, tables=tables)
    with Watch(err) as watch, Backup(Places.of(settings), directory.absolute(), watch) as making:
        manifest = making.make()
    out.print(f"{_summary(manifest)}: {directory}", soft_wrap=True, highlight=False)


def restore(
    directory: Directory,
    check: Annotated[
        bool, typer.Option("--check", help="look whether the backup is whole; restore nothing")
    ] = False,
    data: Data = None,
    log: Log = None,
    store: Store = None,
    tables: Tables = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Make a system from a backup, in places that are empty. Interrupted, it is repeated."""
    from tocsin.storage.backup import restoring
    from tocsin.storage.backup.places import Places

    root = directory.absolute()
    with Watch(err) as watch:
        if check:
            manifest = restoring.read_manifest(root)
            restoring.check(root, manifest, watch)
            out.print(f"whole: {_summary(manifest)}", soft_wrap=True, highlight=False)
            return
        settings = settings_from(config, set_, data=data, log=log, store=store, tables=tables)
        compared = restoring.Restore(root, Places.of(settings), watch).run()
    show_compared(compared)
    out.print("restored: the cluster can start", highlight=False)


def migrate(
    from_: Annotated[
        Path, typer.Option("--from", help="data directory, or settings file, of the system")
    ],
    to: Annotated[Path, typer.Option("--to", help="settings file of the system that it becomes")],
    set_: Set = None,
) -> None:
    """Move a system of files, which is stopped, to Kafka and a database. Interrupted, repeat it."""
    from tocsin.cluster.migration import Migration
    from tocsin.spark.flushing import flush_all

    if not from_.exists():
        raise InvalidInput(
            f"{from_} does not exist", field="from", hint="name the directory of the system's data"
        )
    given = {"data": from_} if from_.is_dir() else {}
    source = settings_from(None if from_.is_dir() else from_, None, **given)
    target = settings_from(to, set_)
    require_libraries(target)
    with Watch(err) as watch:
        compared = Migration(source, target, watch, flush_all).run()
    show_compared(compared)
    out.print(f"moved: tocsin up --config {to}", soft_wrap=True, highlight=False)


def show_compared(compared: Sequence[Compared]) -> None:
    rows = [
        [part.part, part.name, part.count, part.restored_count, part.restored_sha256[:_HASH_DIGITS]]
        for part in compared
    ]
    show_table(["part", "name", "in the backup", "restored", "SHA-256 of both"], rows)


def _summary(manifest: Manifest) -> str:
    records = sum(cut.log_records + cut.stored_rows for cut in manifest.datasets)
    size_bytes = sum(file.size_bytes for file in manifest.files)
    return (
        f"{records} records of {len(manifest.datasets)} datasets,"
        f" {sum(table.rows for table in manifest.tables)} rows of the store,"
        f" {manifest.attachments} attachments, {size_bytes} bytes"
    )
