"""The state file: private, replaced whole, and a clear word if it is damaged."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tocsin.dev.state import FILE, Record, State, locked
from tocsin.errors import Conflict, InvalidInput
from tocsin.system.processes import Process


def test_what_was_saved_is_there_again_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.records["kafka"] = Record(9092, "secret", {"kafka": Process(7, 8.5)})
    state.save()
    assert State(tmp_path).records == state.records
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kafka": {"port": "x"}}', "\udcff"])
def test_a_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InvalidInput, match="is damaged"):
        State(tmp_path)


def test_a_second_command_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(Conflict, match="another tocsin dev"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass
