"""tocsin keys and tocsin token --key: files that say what they are, mistakes that are named."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from typer.testing import CliRunner

from tocsin.cli import app
from tocsin.errors import InvalidInput, NotFound, TocsinError
from tocsin.service.keys.sources import KeyFile
from tocsin.service.keys.verifier import TokenVerifier


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None:
        raise done.exception
    return done.output


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("algorithm", ["EdDSA", "RS256"])
def test_a_new_key_signs_what_its_public_file_verifies(algorithm: str) -> None:
    run("keys", "new", "--out", "keys", "--kid", "k1", "--algorithm", algorithm)
    private, public = Path("keys/k1.private.json"), Path("keys/k1.public.json")
    assert private.stat().st_mode & 0o777 == 0o600
    assert set(json.loads(public.read_text())) < set(json.loads(private.read_text()))
    assert "d" not in json.loads(public.read_text())
    run("keys", "add", "jwks.json", str(public))
    words = ("--scope", "publish", "--subject", "ann", "--role", "chief", "--expires", "90s")
    token = run("token", "--key", str(private), *words).strip()
    header: dict[str, Any] = jwt.get_unverified_header(token)
    assert (header["alg"], header["kid"]) == (algorithm, "k1")
    identity = TokenVerifier(keys=KeyFile(Path("jwks.json"))).verify(token)
    assert identity.subject == "ann"
    assert identity.roles == {"chief"}
    assert 80 < identity.expires_at - time.time() - 60 < 91
    assert identity.claims["jti"]


def test_a_key_without_a_name_has_one_that_follows_from_it(tmp_path: Path) -> None:
    run("keys", "new", "--out", "keys")
    (public,) = Path("keys").glob("*.public.json")
    entry = json.loads(public.read_text())
    assert public.name == entry["kid"] + ".public.json"
    assert len(entry["kid"]) == 43


@pytest.mark.parametrize("kid", ["../evil", "/etc/passwd", ".hidden", "a/b", "", "a b", "x" * 101])
def test_a_kid_cannot_lead_elsewhere(kid: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refusal:
        run("keys", "new", "--out", str(tmp_path / "keys"), "--kid", kid, "--algorithm", "EdDSA")
    assert refusal.value.field == "kid"
    assert not (tmp_path / "keys").exists()


def test_a_key_is_never_written_over() -> None:
    run("keys", "new", "--out", "keys", "--kid", "k1")
    before = Path("keys/k1.private.json").read_text()
    with pytest.raises(InvalidInput, match="there is a key"):
        run("keys", "new", "--out", "keys", "--kid", "k1")
    assert Path("keys/k1.private.json").read_text() == before


def test_keys_are_listed_and_removed_by_name() -> None:
    for kid in ("one", "two"):
        run("keys", "new", "--out", "keys", "--kid", kid)
        run("keys", "add", "jwks.json", f"keys/{kid}.public.json")
    run("keys", "new", "--out", "keys", "--broker", "edge")
    run("keys", "add", "jwks.json", "keys/edge.public.json")
    listed = [line.split("\t") for line in run("keys", "list", "jwks.json").splitlines()]
    assert listed[1:] == [
        ["one", "EdDSA", "anybody", "any"],
        ["two", "EdDSA", "anybody", "any"],
        ["edge", "EdDSA", "edge", "broker"],
    ]
    run("keys", "remove", "jwks.json", "one")
    assert "one" not in run("keys", "list", "jwks.json")
    with pytest.raises(NotFound, match="has no key 'one'"):
        run("keys", "remove", "jwks.json", "one")


def test_what_people_wrote_beside_a_key_stays() -> None:
    run("keys", "new", "--out", "keys", "--kid", "k1")
    entry = json.loads(Path("keys/k1.public.json").read_text()) | {"x-note": "of the harbour"}
    Path("jwks.json").write_text(json.dumps({"keys": [entry]}))
    run("keys", "new", "--out", "keys", "--kid", "k2")
    run("keys", "add", "jwks.json", "keys/k2.public.json")
    assert json.loads(Path("jwks.json").read_text())["keys"][0] == entry


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["keys", "new", "--out", "keys", "--algorithm", "HS256"], "algorithm"),
        (["keys", "new", "--out", "file/keys"], "out"),
        (["keys", "add", "jwks.json", "nowhere.json"], "key"),
        (["keys", "add", "jwks.json", "file"], "key"),
        (["keys", "add", "jwks.json", "list.json"], "key"),
        (["keys", "add", "jwks.json", "keys/k1.private.json"], "key"),
        (["keys", "add", "file", "keys/k1.public.json"], "file"),
        (["keys", "list", "file"], "file"),
        (["keys", "list", "keys"], "file"),
        (["keys", "revoke", "--file", "revoked.json"], "kid"),
        (["keys", "revoke", "--file", "revoked.json", "--subject", ""], "subjects"),
        (["keys", "revoke", "--file", "file", "--subject", "ann"], "file"),
        (["token", "--key", "nowhere", "--scope", "publish"], "key"),
        (["token", "--key", "file", "--scope", "publish"], "key"),
        (["token", "--key", "keys/k1.public.json", "--scope", "publish"], "key"),
        (["token", "--key", "keys/k1.private.json", "--scope", "root"], "scope"),
        (["token", "--key", "keys/edge.private.json", "--scope", "broker"], "subject"),
        (
            ["token", "--key", "keys/edge.private.json", "--scope", "admin", "--subject", "edge"],
            "scope",
        ),
    ],
)
def test_a_mistake_is_named(words: list[str], field: str) -> None:
    Path("file").write_text("nonsense")
    Path("list.json").write_text("[]")
    run("keys", "new", "--out", "keys", "--kid", "k1")
    run("keys", "new", "--out", "keys", "--broker", "edge")
    with pytest.raises(TocsinError) as refusal:
        run(*words)
    assert refusal.value.field == field


def test_revocations_in_a_file_add_up() -> None:
    run("keys", "revoke", "--file", "r.json", "--subject", "ann", "--kid", "old")
    run("keys", "revoke", "--file", "r.json", "--token-id", "j1", "--subject", "bea")
    run("keys", "restore", "--file", "r.json", "--subject", "ann")
    listed = run("keys", "revoked", "--file", "r.json").splitlines()[1:]
    assert listed == ["key\told", "subject\tbea", "token\tj1"]
    assert Path("r.json").stat().st_mode & 0o777 == 0o600
