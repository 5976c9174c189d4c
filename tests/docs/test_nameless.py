"""Nothing in the source is called `one`, `found`, `told`, `each` or `some`: it has its own noun.

`OFFENDING` lists the modules that still have such a name. It is exact: a module that is clean must
leave it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from docs.papers import ROOT

SOURCE = ROOT / "src" / "tocsin"
NAMELESS = {"one", "found", "told", "each", "some"}
OFFENDING: set[str] = {
    "broker/machine/members.py",
    "broker/machine/neighbours.py",
    "broker/machine/recalls.py",
    "broker/machine/results.py",
    "broker/server/links.py",
    "broker/server/metrics.py",
    "broker/server/pages/calls.py",
    "broker/server/pages/pages.py",
    "broker/server/pages/shelf.py",
    "broker/server/recorder.py",
    "broker/server/rest.py",
    "broker/server/server.py",
    "testing/simulation/checkers.py",
    "testing/simulation/client.py",
    "testing/simulation/mesh.py",
    "testing/simulation/model_cluster.py",
    "testing/simulation/model_log.py",
    "testing/simulation/network.py",
    "testing/simulation/world.py",
}


def test_every_thing_in_the_source_has_a_name_of_its_own() -> None:
    offending = {
        path.relative_to(SOURCE).as_posix(): names
        for path in SOURCE.rglob("*.py")
        if (names := sorted(_nameless(ast.parse(path.read_text()))))
    }
    new = {module: names for module, names in offending.items() if module not in OFFENDING}
    assert not new, "name them for what they are"
    clean = OFFENDING - offending.keys()
    assert not clean, "these modules are clean: take them out of OFFENDING"


def test_a_nameless_thing_is_noticed_wherever_it_is_bound() -> None:
    for source in (
        "one = 1",
        "one: int",
        "one += 1",
        "(first, *one) = ()",
        "thing.one = 1",
        "(one := 1)",
        "for one in (): ...",
        "[0 for one in ()]",
        "lambda one: 0",
        "def f(*one): ...",
        "def f(**one): ...",
        "def _one(): ...",
        "async def one(): ...",
        "class One: ...",
        "with f() as one: ...",
        "try: ...\nexcept ValueError as one: ...",
        "match 0:\n    case [*one]: ...",
        "match 0:\n    case {**one}: ...",
        "match 0:\n    case 0 as one: ...",
        "import thing as one",
        "def f():\n    global one",
    ):
        assert list(_nameless(ast.parse(source))), source
    assert not list(_nameless(ast.parse("f(one).told, NotFound, nobody_told_us")))


def _nameless(tree: ast.AST) -> Iterator[str]:
    return (name for name in _bound(tree) if name.strip("_").lower() in NAMELESS)


def _bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name) | ast.alias(asname=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.ExceptHandler(name=str(name)):
                yield name
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                yield from names
