"""Wrong calls of `tocsin backup`, `restore` and `migrate`: a clear error, and nothing is made."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tocsin.cli import app
from tocsin.errors import TocsinError
from tocsin.storage.store.store import Store


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "company.toml").write_text('data = "new"\nlog = "kafka://127.0.0.1:1/t"\n')
    (tmp_path / "files.toml").write_text('data = "new"\n')
    (tmp_path / "wrong.toml").write_text("nonsense = 1\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    (tmp_path / "started").mkdir()
    (tmp_path / "started" / "started.json").write_text('{"id":"a","store":"s","log":"segments"}')
    (tmp_path / "spoilt").mkdir()
    (tmp_path / "spoilt" / "manifest.json").write_text("{")
    (tmp_path / "data").mkdir()
    Store.open(f"sqlite:///{tmp_path}/data/store.db").close()


@pytest.mark.parametrize(
    ("call", "field", "message"),
    [
        ("backup b --data nowhere", "data", "no store in"),
        ("backup b --data data --store sqlite:///gone/s.db", "store", "no store in"),
        ("backup full --data data", "directory", "is not empty"),
        ("backup started --data data", "directory", "unfinished backup of s"),
        ("restore nowhere", "directory", "no backup in"),
        ("restore full", "directory", "no backup in"),
        ("restore started", "directory", "unfinished"),
        ("restore spoilt --check", None, "is damaged: manifest.json"),
        ("migrate --from nowhere --to company.toml", "from", "does not exist"),
        ("migrate --from data --to nowhere.toml", None, "cannot read the settings file"),
        ("migrate --from data --to wrong.toml", "nonsense", "no setting"),
        ("migrate --from data --to files.toml", "log", "name none"),
        ("migrate --from full --to company.toml", "data", "no store in"),
        ("migrate --from company.toml --to company.toml", "from", "on Kafka already"),
        ("migrate --from data --to company.toml --set data=data", "data", "directory of its own"),
        ("migrate --from data --to company.toml", None, "Kafka at .* cannot answer"),
    ],
)
def test_a_wrong_call_names_the_field_and_makes_nothing(
    tmp_path: Path, call: str, field: str | None, message: str
) -> None:
    before = files(tmp_path)
    done = CliRunner().invoke(app, call.split())
    error = done.exception
    assert isinstance(error, TocsinError), done.output
    assert error.field == field
    with pytest.raises(TocsinError, match=message):
        raise error
    assert error.hint or field is None
    assert files(tmp_path) == before


def files(directory: Path) -> set[Path]:
    """Without those that SQLite has beside a file while it is open."""
    return {path for path in directory.rglob("*") if not path.name.startswith("store.db")}
