"""The tree that the living brokers are to form: balanced in the order they came, or as a file says.

Depends on who lives and which places they say they have, not on how it came about: a broker that
returns is in its old place again, and coordinators that know the same brokers say the same tree.
Sans-I/O but for reading the file; must not know heartbeats.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tocsin.errors import InvalidInput, SettingError
from tocsin.overlay.topology import Tree, balanced, read_tree, tree_of, without
from tocsin.protocol.coordinator import OverlayTree

MOST_ABSENT = 32
"""So many brokers that are away keep their places, and so many places without a broker count. To
cut them out takes time for each, and where brokers have a new name whenever they start, there would
be ever more."""


class Overlay:
    def __init__(self, given: Tree | None = None) -> None:
        self._given = given
        self._places: dict[str, int] = {}  # those who were away longest come first
        self._computed: tuple[list[str], Tree | None] = ([], None)

    def came(self, name: str, place: int | None) -> int:
        """A broker reports: its place, which is the one that it says, whoever gave it; else the one
        it had with us; else the next."""
        had = self._places.pop(name, None)
        if place is None:
            place = had
        if place is None:
            place = max(self._places.values(), default=-1) + 1
        self._places[name] = place
        return place

    def tree(self, alive: Collection[str]) -> Tree | None:
        """None if nobody lives."""
        if not alive:
            return None
        self._forget(alive)
        order = self._order(alive)
        if self._computed[0] != order:
            base = self._base(order)
            self._computed = (order, without(base, set(base.brokers) - set(alive)))
        return self._computed[1]

    def shown(self, alive: Collection[str]) -> OverlayTree:
        tree = self.tree(alive)
        if tree is None:
            return OverlayTree(None, (), ())
        return OverlayTree(tree.brokers[0], tree.brokers, tree.links)

    def _order(self, alive: Collection[str]) -> list[str]:
        """The living by their places, with a stand-in wherever nobody is."""
        order: list[str] = []
        free = 0
        for name in sorted(alive, key=lambda name: (self._places[name], name)):
            place = max(free, self._places[name])
            order += [f" {absent}" for absent in range(max(free, place - MOST_ABSENT), place)]
            order.append(name)
            free = place + 1
        nobody = [name for name in order if name not in alive]
        too_many = set(nobody[: max(0, len(nobody) - MOST_ABSENT)])
        return [name for name in order if name not in too_many]

    def _base(self, order: list[str]) -> Tree:
        given = self._given
        if given is None:
            return balanced(order)
        others = [name for name in order if name not in given.brokers]
        root = given.brokers[0]
        links = [*given.links, *((root, name) for name in others)]
        return tree_of([*given.brokers, *others], links)

    def _forget(self, alive: Collection[str]) -> None:
        absent = [name for name in self._places if name not in alive]
        for name in absent[: max(0, len(absent) - MOST_ABSENT)]:
            del self._places[name]


def tree_from(file: str) -> Tree | None:
    """What the setting `overlay_tree` says; None if it says nothing."""
    if not file:
        return None
    try:
        return read_tree(Path(file).read_text("utf-8"))
    except OSError as error:
        raise SettingError(
            f"cannot read the tree of brokers {file}: {error.strerror}", field="overlay_tree"
        ) from None
    except UnicodeDecodeError:
        raise SettingError(
            f"the tree of brokers {file} is not a text", field="overlay_tree"
        ) from None
    except InvalidInput as error:
        where = f", {error.field}" if error.field else ""
        raise SettingError(
            f"the tree of brokers {file}{where}: {error.message}",
            field="overlay_tree",
            hint=error.hint,
        ) from None
