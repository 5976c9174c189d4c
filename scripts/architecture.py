"""Draw docs/pictures/tree.svg and docs/pictures/publication.svg from the code.

    python scripts/architecture.py [DIRECTORY]       where the pictures go, if not docs/pictures

The tree is the import graph: packages in the layers of pyproject.toml, with their lines, and the
packages that they import, without those that follow from others. A publication passes `STATIONS`:
each has a function, which must exist, and a module, which must reach the one before by imports, or
be reached by it, unless a wire lies between them.
"""

from __future__ import annotations

import ast
import sys
import textwrap
import tomllib
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
INK, QUIET, BOX, EDGE, ARROW = "#1f2933", "#616e7c", "#eef2f7", "#9aa5b1", "#7b8794"
WIDTH, GAP, ROW, TOP = 900, 12, 74, 34


class Station(NamedTuple):
    module: str
    function: str
    says: str
    wire: str = ""  # what lies between the station before and this one, if no import does


STATIONS = (
    Station("cluster.calls", "Calls.records", "a record arrives by HTTP"),
    Station("cluster.intake", "Intake.publish", "it is checked against its dataset"),
    Station("storage.log.writer", "PublicationLog.append", "one fsync makes it durable"),
    Station("spark.dispatcher", "Dispatcher.wake", "late channels are woken", "news of the log"),
    Station("spark.steps", "Steps.take", "a channel takes what is new", "a turn"),
    Station("spark.channel_runs", "ChannelRuns.run", "one join matches all subscriptions"),
    Station("storage.store.runs", "Runs.commit_run", "run, results and position are committed"),
    Station("cluster.notices", "Notifier.results_committed", "brokers are notified", "committed"),
    Station("broker.machine.core", "BrokerCore.notice", "the broker learns of it", "webhook"),
    Station("broker.machine.core", "BrokerCore.fetched", "results enter the cache", "HTTP"),
    Station("client.feed", "Feed.signalled", "an online subscriber is signalled", "WebSocket"),
    Station("broker.machine.core", "BrokerCore.get", "it gets what it has not seen", "WebSocket"),
    Station("client.feed", "Feed.arrived", "results arrive, in order", "WebSocket or SSE"),
    Station("broker.machine.core", "BrokerCore.ack", "it acknowledges cumulatively", "WebSocket"),
    Station("storage.store.markers", "", "the marker is stored", "HTTP"),
)


def modules() -> dict[str, ast.Module]:
    trees = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text())
    return trees


def imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """What each module imports of ours, inside functions too."""
    graph: dict[str, set[str]] = {name: set() for name in trees}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                graph[name] |= {path if path in trees else node.module for path in names}
            elif isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names}
        graph[name] &= trees.keys()
    return graph


def reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def layers() -> list[list[str]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = (
        contract
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers" and "containers" not in contract
    )
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def package_of(module: str, packages: list[str]) -> str | None:
    return next((p for p in packages if module == p or module.startswith(f"{p}.")), None)


def package_imports(packages: list[str], graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Imports between packages, without those that follow from others."""
    between: dict[str, set[str]] = {package: set() for package in packages}
    for module, imported in graph.items():
        source = package_of(module, packages)
        for target in imported if source else ():
            package = package_of(target, packages)
            if source and package and package != source:
                between[source].add(package)
    return {
        package: {
            target
            for target in targets
            if not any(target in reachable(other, between) for other in targets - {target})
        }
        for package, targets in between.items()
    }


def line_counts(packages: list[str]) -> dict[str, int]:
    counts = dict.fromkeys(packages, 0)
    for path in SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        package = package_of(module, packages)
        if package:
            counts[package] += len(path.read_text().splitlines())
    return counts


def text(x: float, y: float, words: str, size: int, colour: str, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


def box(x: float, y: float, width: float, height: float) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" '
        f'fill="{BOX}" stroke="{EDGE}"/>'
    )


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    bend = (to_y - y) / 2
    return (
        f'<path d="M{x:g} {y:g} C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}" '
        f'fill="none" stroke="{ARROW}" stroke-width="1.2" marker-end="url(#head)"/>'
    )


def picture(width: float, height: float, shapes: list[str]) -> str:
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{ARROW}"/></marker></defs>'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" font-family="Helvetica, Arial, sans-serif">',
            head,
            f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
            *shapes,
            "</svg>\n",
        ]
    )


def tree(graph: dict[str, set[str]]) -> str:
    rows = layers()
    packages = [package for row in rows for package in row]
    counts = line_counts(packages)
    targets = package_imports(packages, graph)
    height = TOP + len(rows) * ROW
    shapes = [arrow(24, TOP, 24, height - 24), text(14, 22, "imports", 12, QUIET, "start")]
    for number, row in enumerate(rows):
        for index, package in enumerate(row):
            width = (WIDTH + GAP) / len(row) - GAP
            x = 60 + index * (width + GAP)
            shapes += package_box(x, TOP + number * ROW, width, package, counts, targets)
    return picture(60 + WIDTH + 20, height, shapes)


def package_box(
    x: float,
    y: float,
    width: float,
    package: str,
    counts: dict[str, int],
    targets: dict[str, set[str]],
) -> list[str]:
    names = ", ".join(sorted(target.removeprefix("tocsin.") for target in targets[package]))
    lines = textwrap.wrap(f"→ {names}", int(width / 6.4)) if names else []
    count = round(counts[package], -2 if counts[package] >= 100 else -1)
    return [
        box(x, y, width, ROW - GAP),
        text(x + 12, y + 20, package.removeprefix("tocsin."), 15, INK, "start"),
        text(x + width - 12, y + 20, f"{count:,} lines", 11, QUIET, "end"),
        *(text(x + 12, y + 38 + 14 * n, line, 11, QUIET, "start") for n, line in enumerate(lines)),
    ]


def check_stations(trees: dict[str, ast.Module], graph: dict[str, set[str]]) -> None:
    for station in STATIONS:
        module = f"tocsin.{station.module}"
        if module not in trees:
            sys.exit(f"architecture: there is no module {module}")
        if station.function and not defines(trees[module], station.function):
            sys.exit(f"architecture: {module} defines no {station.function}")
    for before, after in pairwise(STATIONS):
        source, target = f"tocsin.{before.module}", f"tocsin.{after.module}"
        joined = source == target or target in reachable(source, graph)
        joined = joined or source in reachable(target, graph)
        if not (after.wire or joined):
            sys.exit(f"architecture: no import joins {source} and {target}, and no wire is named")


def defines(module: ast.Module, name: str) -> bool:
    body: list[ast.stmt] = module.body
    for part in name.split("."):
        named = [node for node in body if getattr(node, "name", None) == part]
        if not named:
            return False
        body = getattr(named[0], "body", [])
    return True


def publication() -> str:
    shapes = []
    for number, station in enumerate(STATIONS):
        y = 20 + number * 68
        if number:
            shapes.append(arrow(250, y - 24, 250, y))
            if station.wire:
                shapes.append(text(264, y - 8, station.wire, 11, QUIET, "start"))
        shapes.append(box(30, y, 440, 44))
        shapes.append(text(44, y + 19, station.says, 14, INK, "start"))
        where = f"{station.module}: {station.function}" if station.function else station.module
        shapes.append(text(44, y + 36, where, 11, QUIET, "start"))
    return picture(500, 20 + len(STATIONS) * 68 - 4, shapes)


def main() -> None:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures"
    trees = modules()
    graph = imports(trees)
    check_stations(trees, graph)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tree.svg").write_text(tree(graph))
    (directory / "publication.svg").write_text(publication())


if __name__ == "__main__":
    main()
