"""The tree of brokers: who is linked with whom. Balanced, or read from a text; a dead broker is
cut out, and its neighbours are joined again.

All of it depends on its inputs alone, so that everybody who knows the same brokers, and the same
dead, makes the same tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from tocsin.errors import InvalidInput, field_named

Link = tuple[str, str]


class Tree(Struct, frozen=True):
    """Made by `tree_of` and what stands below it: linked, without cycles. Links are in order."""

    brokers: tuple[str, ...]
    links: tuple[Link, ...]

    def neighbours(self, broker: str) -> list[str]:
        return sorted(
            other for link in self.links for end, other in (link, link[::-1]) if end == broker
        )

    def path(self, first: str, last: str) -> list[str]:
        """The brokers from the first to the last, both included."""
        path = _path(self.links, first, last)
        assert path is not None
        return path


def tree_of(brokers: Iterable[str], links: Sequence[Sequence[str]]) -> Tree:
    """The tree of these brokers and links. The error says why they form none."""
    known = tuple(brokers)
    if not known:
        raise InvalidInput("a tree has at least one broker", field="brokers")
    for name in known:
        if known.count(name) > 1:
            raise InvalidInput(f"broker {name!r} is named twice", field="brokers")
    checked: list[Link] = []
    for number, link in enumerate(links):
        checked.append(_checked(link, known, checked, field=f"links[{number}]"))
    parts = _parts(known, checked)
    if len(parts) > 1:
        listed = "; ".join(", ".join(part) for part in parts)
        raise InvalidInput(
            f"the brokers fall into {len(parts)} parts: {listed}",
            field="links",
            hint=f"link one of the first part with one of the others, such as {parts[0][0]!r} "
            f"with {parts[1][0]!r}",
        )
    return Tree(known, tuple(sorted(checked)))


def _checked(link: Sequence[str], known: tuple[str, ...], links: list[Link], field: str) -> Link:
    if len(link) != 2 or link[0] == link[1]:
        raise InvalidInput(
            f"{', '.join(link) or 'nothing'}: a link is between two brokers", field=field
        )
    for name in link:
        if name not in known:
            raise InvalidInput(
                f"no broker is called {name!r}", field=field, hint=f"one of {', '.join(known)}"
            )
    first, second = sorted(link)
    if (first, second) in links:
        raise InvalidInput(f"{first!r} and {second!r} are linked twice", field=field)
    already = _path(links, first, second)
    if already is not None:
        raise InvalidInput(
            f"a cycle: {' – '.join([*already, first])}",
            field=field,
            hint="messages would go round; leave one of these links out",
        )
    return first, second


def balanced(brokers: Iterable[str]) -> Tree:
    """A balanced binary tree, filled level by level in the given order: the first is the root. One
    more broker at the end is one more leaf."""
    known = tuple(brokers)
    return tree_of(known, [(known[(at - 1) // 2], known[at]) for at in range(1, len(known))])


class _Given(Struct, forbid_unknown_fields=True):
    links: list[list[str]]
    brokers: list[str] | None = None


def read_tree(text: str, brokers: Iterable[str] | None = None) -> Tree:
    """From TOML: `links = [["a", "b"], …]`, and `brokers = ["a", …]` if their names are not given
    here. Without either, whoever is linked is a broker."""
    try:
        given = msgspec.toml.decode(text, type=_Given)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            f"this is no tree: {error}",
            field=field_named(error),
            hint='such as links = [["a", "b"], ["a", "c"]]',
        ) from None
    except msgspec.DecodeError as error:
        raise InvalidInput(f"this is no TOML: {error}", field="tree") from None
    known = brokers if brokers is not None else given.brokers
    if known is None:
        known = dict.fromkeys(name for link in given.links for name in link)
    return tree_of(known, given.links)


def without(tree: Tree, dead: Iterable[str]) -> Tree:
    """The dead are cut out, in the order of their names. The neighbours of each are joined as a
    balanced tree, those with the fewest links first: nobody has more than two links more."""
    for name in sorted(set(dead) & set(tree.brokers)):
        tree = _cut(tree, name)
    return tree


def _cut(tree: Tree, dead: str) -> Tree:
    left = [link for link in tree.links if dead not in link]
    orphans = tree.neighbours(dead)
    orphans.sort(key=lambda name: (sum(name in link for link in left), name))
    joined = balanced(orphans).links if orphans else ()
    brokers = tuple(name for name in tree.brokers if name != dead)
    if not brokers:
        raise InvalidInput("no broker is left", field="brokers")
    return tree_of(brokers, [*left, *joined])


def _path(links: Iterable[Link], first: str, last: str) -> list[str] | None:
    neighbours: dict[str, list[str]] = {}
    for left, right in links:
        neighbours.setdefault(left, []).append(right)
        neighbours.setdefault(right, []).append(left)
    came: dict[str, str] = {last: last}
    waiting = [last]
    while waiting and first not in came:
        here = waiting.pop()
        for name in neighbours.get(here, ()):
            if name not in came:
                came[name] = here
                waiting.append(name)
    if first not in came:
        return None
    path = [first]
    while path[-1] != last:
        path.append(came[path[-1]])
    return path


def _parts(brokers: tuple[str, ...], links: list[Link]) -> list[list[str]]:
    """The brokers that can reach each other, together."""
    part = {name: [name] for name in brokers}
    for first, second in links:
        joined = part[first] + part[second]
        part.update(dict.fromkeys(joined, joined))
    return list({id(names): names for names in part.values()}.values())
