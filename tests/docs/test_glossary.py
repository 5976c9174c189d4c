"""The glossary is the final word on words: public names do not contain what it rules out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from docs.papers import ROOT

SOURCE = ROOT / "src" / "tocsin"
GLOSSARY = ROOT / "docs" / "glossary.md"

MEANS_SOMETHING_ELSE = {
    ("lab/simulators/result_cache/kernel.py", "subject"),  # whom an event is about
    ("lab/workloads/workload.py", "subject"),
    ("overlay/filters/filter.py", "Near"),  # a distance, as in SQL
    ("overlay/filters/filter.py", "near"),
    ("overlay/filters/filter.py", "near_test"),
    ("overlay/filters/texts.py", "common_prefix"),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_the_table_of_words_is_read() -> None:
    words = _ruled_out()
    assert words["lane"] == ()
    assert words["near"] == ("broker", "overlay", "testing")
    assert "utils" in words


def test_public_names_contain_no_word_that_the_glossary_rules_out() -> None:
    assert set(_offending()) == MEANS_SOMETHING_ELSE, "say it as docs/glossary.md does"


def test_a_name_is_split_at_underscores_and_capitals() -> None:
    assert _parts("NearCounts") == ["near", "counts"]
    assert _parts("told_by_kernel") == ["told", "by", "kernel"]
    assert _parts("nearest") == ["nearest"]
    assert _parts("LANE_S") == ["lane", "s"]


def test_a_ruled_out_word_is_noticed_in_every_kind_of_name() -> None:
    tree = ast.parse(
        "class Lane:\n    seal: int\n    def gate(self, keeper: int) -> None: ...\n"
        "TAKER = 1\nclass _Custody:\n    moment: int\n"
    )
    public = set(_names(tree.body))
    assert {"Lane", "seal", "gate", "keeper", "TAKER"} <= public
    assert not public & {"_Custody", "moment"}


def _offending() -> Iterator[tuple[str, str]]:
    words = _ruled_out()
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE)
        names = [_module_name(path), *_names(ast.parse(path.read_text()).body)]
        for name in names:
            if any(part in words and _within(module, words[part]) for part in _parts(name)):
                yield module.as_posix(), name


def _ruled_out() -> dict[str, tuple[str, ...]]:
    """Each word with the packages where it is ruled out; none: everywhere."""
    section = GLOSSARY.read_text().split("## Words not to use")[1]
    rows = re.findall(r"^\| ([a-z, ]+) \| [^|]+ \| ?([^|]*?) ?\|$", section, re.MULTILINE)
    return {
        word: tuple(package for package in where.split(", ") if package)
        for words, where in rows
        if words != "not"
        for word in words.split(", ")
    }


def _within(module: Path, packages: tuple[str, ...]) -> bool:
    return not packages or any(module.is_relative_to(package) for package in packages)


def _module_name(path: Path) -> str:
    return path.parent.name if path.stem == "__init__" else path.stem


def _names(body: list[ast.stmt]) -> Iterator[str]:
    """Public names that a module or a class declares, and the parameters of its functions."""
    for node in body:
        for name in _declared(node):
            if not name.startswith("_"):
                yield name
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _names(node.body)
        if isinstance(node, Function) and not node.name.startswith("_"):
            arguments = node.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                yield argument.arg


def _declared(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | Function):
        return [node.name]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _parts(name: str) -> list[str]:
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]
