"""What every content store promises, whatever it lies on."""

from __future__ import annotations

import hashlib
import math
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from fsspec.registry import _registry

from content.media import PLACES, Place
from tocsin.errors import InvalidInput, NotFound, SettingError
from tocsin.storage.content import open_content
from tocsin.storage.content.port import PIECE_BYTES
from tocsin.storage.content.remote import RemoteMedium

LONG = bytes(range(256)) * (3 * PIECE_BYTES // 256) + b"the end"


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](request, tmp_path)


def id_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_what_comes_in_goes_out_under_its_hash(place: Place) -> None:
    incoming = place.store.receive()
    for start in range(0, len(LONG), 100_000):
        incoming.write(LONG[start : start + 100_000])
    assert incoming.commit(id_of(LONG)) == (id_of(LONG), True)
    assert b"".join(place.store.read(id_of(LONG))) == LONG
    kept = place.store.info(id_of(LONG))
    assert kept is not None
    assert kept.size_bytes == len(LONG)
    assert place.aside == []


def test_equal_bytes_lie_once(place: Place) -> None:
    assert place.store.put(b"a flood") == place.store.put(b"a flood")
    again = place.store.receive()
    again.write(b"a flood")
    assert again.commit() == (id_of(b"a flood"), False)
    assert [one.id for one in place.store.kept()] == [id_of(b"a flood")]
    assert place.aside == []


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, 1), (5, 5 + PIECE_BYTES + 3), (len(LONG) - 2, None), (7, 10**12), (10, 5)],
)
def test_a_part_can_be_read(place: Place, start: int, stop: int | None) -> None:
    place.store.put(LONG)
    assert b"".join(place.store.read(id_of(LONG), start, stop)) == LONG[start:stop]


def test_no_bytes_are_content_too(place: Place) -> None:
    assert b"".join(place.store.read(place.store.put(b""))) == b""


def test_a_wrong_hash_stores_nothing(place: Place) -> None:
    incoming = place.store.receive()
    incoming.write(b"one thing")
    with pytest.raises(InvalidInput) as refused:
        incoming.commit(id_of(b"another"))
    assert refused.value.field == "id"
    assert id_of(b"one thing") in refused.value.message
    assert list(place.store.kept()) == []
    assert place.aside == []


def test_what_is_given_up_stores_nothing(place: Place) -> None:
    incoming = place.store.receive()
    incoming.write(b"half of")
    incoming.discard()
    incoming.discard()
    assert list(place.store.kept()) == []
    assert place.aside == []


def _read_into(read: list[bytes], place: Place, id: str) -> None:
    for piece in place.store.read(id):
        read.append(piece)  # noqa: PERF402 (what came before it raises counts)


@pytest.mark.parametrize("damage", [LONG[:-1] + b"!", LONG[:-1], LONG[: PIECE_BYTES + 1], b""])
def test_damage_is_noticed_dropped_and_mended_by_the_next_upload(
    place: Place, damage: bytes
) -> None:
    id = place.store.put(LONG)
    place.spoil(id, damage)
    read: list[bytes] = []
    with pytest.raises(NotFound, match="damaged"):
        _read_into(read, place, id)
    assert sum(map(len, read)) < max(1, len(damage))  # nobody gets a whole that is not right
    assert place.store.info(id) is None
    assert place.store.put(LONG) == id
    assert b"".join(place.store.read(id)) == LONG


def test_what_is_not_there_is_told(place: Place) -> None:
    missing = id_of(b"missing")
    assert place.store.info(missing) is None
    with pytest.raises(NotFound) as refused:
        place.store.read(missing)
    assert refused.value.field == "id"
    place.store.drop(missing)


@pytest.mark.parametrize(
    "id", ["", "..", "../" * 20 + "x", "A" * 64, "0" * 63, "0" * 65, "0/" * 32]
)
def test_only_hashes_are_names(place: Place, id: str) -> None:
    for call in (place.store.info, place.store.read, place.store.drop):
        with pytest.raises(InvalidInput):
            call(id)


def test_dropped_content_is_gone(place: Place) -> None:
    id = place.store.put(b"a flood")
    place.store.drop(id)
    assert place.store.info(id) is None
    assert list(place.store.kept()) == []


def test_what_a_crash_left_aside_is_deleted_at_the_next_start(tmp_path: Path) -> None:
    store = open_content("", tmp_path)
    store.receive().write(b"half of")
    (left,) = store.incoming.iterdir()
    open_content("", tmp_path)
    assert not left.exists()


def test_files_lie_in_two_levels_of_folders(tmp_path: Path) -> None:
    id = open_content("", tmp_path).put(b"a flood")
    assert (tmp_path / "attachments" / id[:2] / id[2:4] / id).read_bytes() == b"a flood"


def test_an_upload_of_damaged_content_mends_it_at_once(place: Place) -> None:
    id = place.store.put(b"a flood")
    place.spoil(id, b"a flooD")
    place.store.put(b"a flood")
    assert b"".join(place.store.read(id)) == b"a flood"


@pytest.mark.parametrize("package", ["s3fs", "fsspec.core"])
def test_an_object_store_without_its_packages_is_a_setting_to_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    monkeypatch.delitem(_registry, "s3", raising=False)
    with pytest.raises(SettingError) as refused:
        open_content("s3://bucket/folder", tmp_path)
    assert refused.value.field == "attachments"
    assert "pip install tocsin[s3]" in str(refused.value)


def test_it_is_told_when_content_came_and_came_again(place: Place) -> None:
    """S3 counts whole seconds."""
    before = time.time() - 2
    id = place.store.put(b"a flood")
    first = place.store.info(id)
    assert first is not None
    assert before < first.modified_at < time.time() + 2
    assert [one.modified_at for one in place.store.kept()] == [first.modified_at]
    deadline = time.monotonic() + 20
    while (again := place.store.info(id)) is None or again.modified_at == first.modified_at:
        assert time.monotonic() < deadline
        time.sleep(0.2)
        place.store.put(b"a flood")


def test_where_no_time_is_told_content_never_grows_old(tmp_path: Path) -> None:
    """Else it would be collected before a record mentions it."""
    files = SimpleNamespace(info=lambda path: {"name": path, "size": 1, "LastModified": ""})
    found = RemoteMedium(files, "bucket", tmp_path, shown="x").info(id_of(b"x"))
    assert found is not None
    assert found.modified_at == math.inf


def test_a_mistake_of_our_own_is_not_told_as_a_store_that_is_away(tmp_path: Path) -> None:
    medium = RemoteMedium(SimpleNamespace(rm_file=print), "bucket", tmp_path, shown="x")
    with pytest.raises(TypeError):
        medium.drop(None)  # type: ignore[arg-type]


def test_a_directory_that_cannot_be_is_a_setting_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError) as refused:
        open_content(str(tmp_path / "file" / "below"), tmp_path)
    assert refused.value.field == "attachments"
