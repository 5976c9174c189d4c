"""A backup or a restore that is cut short is noticed, and repeated to its end."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from backup.system import Silent, back_up, furnish, places, restore
from cluster.sparkless import sparkless
from tocsin import durable
from tocsin.cluster.opening import open_store
from tocsin.errors import Conflict, Damaged, NotFound, SettingError
from tocsin.protocol.backup import MANIFEST
from tocsin.settings import Settings
from tocsin.storage.backup.restoring import Restore, check, read_manifest
from tocsin.storage.store import dump
from tocsin.storage.store.store import Store

EVERY = 3  # so many steps lie between two that are tried


class Killed(BaseException):
    """What happens to a process happens to it between two files."""


@pytest.fixture(name="live")
async def _live(tmp_path: Path) -> Path:
    """The data of a system that is stopped."""
    live = tmp_path / "live"
    live.mkdir()
    async with sparkless(live) as cluster:
        await furnish(cluster)
    return live


@contextmanager
def killed_after(steps: int) -> Iterator[None]:
    """Whatever becomes durable is a step, files and commits alike."""
    left = steps

    def stepping(step: Callable[..., None]) -> Callable[..., None]:
        def counted(*given: object, **options: object) -> None:
            nonlocal left
            if threading.current_thread() is threading.main_thread():
                left -= 1
                if left < 0:
                    raise Killed
            step(*given, **options)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "move", stepping(durable.move))
        patch.setattr(dump.Loading, "load", stepping(dump.Loading.load))
        patch.setattr(dump.Loading, "forget_topics", stepping(dump.Loading.forget_topics))
        patch.setattr(Path, "unlink", stepping(Path.unlink))
        yield


def finished(act: Callable[[], object], steps: int) -> bool:
    try:
        with killed_after(steps):
            act()
    except Killed:
        return False
    return True


def test_a_backup_that_was_cut_short_is_no_backup_and_goes_on(live: Path, tmp_path: Path) -> None:
    steps = 0
    while not finished(partial(back_up, live, tmp_path / f"{steps}"), steps):
        root = tmp_path / f"{steps}"
        if not (root / MANIFEST).exists():
            with pytest.raises(Conflict if steps else NotFound):
                read_manifest(root)
            back_up(live, root)
        check(root, read_manifest(root), Silent())
        assert not list(root.rglob("*.writing"))
        shutil.rmtree(root)
        steps += EVERY
    assert steps > 12


def test_a_restore_that_was_cut_short_is_noticed_and_goes_on(live: Path, tmp_path: Path) -> None:
    root, steps = tmp_path / "backup", 0
    back_up(live, root)
    while True:
        data = tmp_path / f"{steps}"
        if finished(partial(restore, root, data), steps):
            break
        if steps:
            with pytest.raises(Conflict, match="unfinished"):
                open_store(Settings(data=data))
        assert all(part.equal for part in restore(root, data))
        open_store(Settings(data=data)).close()
        shutil.rmtree(data)
        steps += EVERY
    assert steps > 12


@pytest.mark.parametrize("folder", ["store", "datasets", "log", "attachments"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_damaged_file_of_a_backup_is_named(
    live: Path, tmp_path: Path, folder: str, is_there: bool
) -> None:
    root = tmp_path / "backup"
    manifest = back_up(live, root)
    in_folder = [file for file in manifest.files if file.path.startswith(f"{folder}/")]
    path = max(in_folder, key=lambda file: file.size_bytes).path
    if is_there:
        body = bytearray((root / path).read_bytes())
        body[len(body) // 2] ^= 1
        (root / path).write_bytes(body)
    else:
        (root / path).unlink()
    with pytest.raises(Damaged, match=path):
        check(root, manifest, Silent())
    with pytest.raises(Damaged, match=path):
        restore(root, tmp_path / "elsewhere")
    with pytest.raises(Conflict, match="unfinished"):
        open_store(Settings(data=tmp_path / "elsewhere"))


def test_a_place_in_use_is_refused_by_name_and_left_alone(live: Path, tmp_path: Path) -> None:
    root, theirs = tmp_path / "backup", tmp_path / "theirs"
    back_up(live, root)
    with Store.open(f"sqlite:///{live}/store.db") as store:
        ours = store.id
    for given in ({}, {"log": str(live / "log")}, {"attachments": str(live / "attachments")}):
        data = live if not given else theirs
        before = sorted(live.rglob("*"))
        with pytest.raises(SettingError, match=ours[:8]):
            restore(root, data, **given)
        assert sorted(live.rglob("*")) == before
        assert not theirs.exists() or not any(theirs.iterdir())
    other = tmp_path / "other.db"
    Store.open(f"sqlite:///{other}").close()
    with pytest.raises(SettingError, match=r"other\.db is there already"):
        restore(root, theirs, store=f"sqlite:///{other}")
    restore(root, theirs)
    with pytest.raises(SettingError, match="belongs to"):
        restore(root, theirs)  # again


def test_a_backup_goes_into_a_directory_of_its_own(live: Path, tmp_path: Path) -> None:
    root = tmp_path / "backup"
    root.mkdir()
    (root / "mine.txt").write_text("not yours")
    with pytest.raises(SettingError, match="is not empty"):
        back_up(live, root)
    assert [path.name for path in root.iterdir()] == ["mine.txt"]
    back_up(live, tmp_path / "good")
    with pytest.raises(Conflict, match="there is a backup in"):
        back_up(live, tmp_path / "good")
    other = tmp_path / "other"
    other.mkdir()
    Store.open(f"sqlite:///{other}/store.db").close()
    (other / "log").mkdir()
    assert not finished(lambda: back_up(live, tmp_path / "cut"), 5)
    with pytest.raises(SettingError, match="an unfinished backup of"):
        back_up(other, tmp_path / "cut")


def test_a_log_that_a_crash_left_is_not_copied(live: Path, tmp_path: Path) -> None:
    """Nobody knows yet what of its end counts."""
    segment = max((live / "log" / "reports").glob("*.log"))
    with segment.open("ab") as file:
        file.write(b"00000000 torn")
    with pytest.raises(Conflict, match="was not closed"):
        back_up(live, tmp_path / "backup")


def test_another_backup_cannot_go_on_with_a_restore(live: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        back_up(live, tmp_path / name)
    data = tmp_path / "data"
    assert not finished(lambda: restore(tmp_path / "first", data), 9)
    with pytest.raises(Conflict, match="another backup"):
        Restore(tmp_path / "second", places(data), Silent()).run()
