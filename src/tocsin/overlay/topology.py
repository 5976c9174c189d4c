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
            other for link in self.links for one, other in (link, link[::-1]) if one == broker
        )

    def path(self, one: str, other: str) -> list[str]:
        """The brokers from one to the other, both included."""
        found = _path(self.links, one, other)
        assert found is not None
        return found


def tree_of(brokers: Iterable[str], links: Sequence[Sequence[str]]) -> Tree:
    """Says what is wrong if it is none."""
    known = tuple(brokers)
    if not known:
        raise InvalidInput("a tree has at least one broker", field="brokers")
    for name in known:
        if known.count(name) > 1:
            raise InvalidInput(f"broker {name!r} is named twice", field="brokers")
    found: list[Link] = []
    for number, link in enumerate(links):
        found.append(_checked(link, known, found, field=f"links[{number}]"))
    parts = _parts(known, found)
    if len(parts) > 1:
        told = "; ".join(", ".join(part) for part in parts)
        raise InvalidInput(
            f"the brokers fall into {len(parts)} parts: {told}",
            field="links",
            hint=f"link one of the first part with one of the others, such as {parts[0][0]!r} "
            f"with {parts[1][0]!r}",
        )
    return Tree(known, tuple(sorted(found)))


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
    one, other = sorted(link)
    if (one, other) in links:
        raise InvalidInput(f"{one!r} and {other!r} are linked twice", field=field)
    already = _path(links, one, other)
    if already is not None:
        raise InvalidInput(
            f"a cycle: {' – '.join([*already, one])}",
            field=field,
            hint="messages would go round; leave one of these links out",
        )
    return one, other


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


def _path(links: Iterable[Link], one: str, other: str) -> list[str] | None:
    beside: dict[str, list[str]] = {}
    for first, second in links:
        beside.setdefault(first, []).append(second)
        beside.setdefault(second, []).append(first)
    came: dict[str, str] = {other: other}
    waiting = [other]
    while waiting and one not in came:
        here = waiting.pop()
        for name in beside.get(here, ()):
            if name not in came:
                came[name] = here
                waiting.append(name)
    if one not in came:
        return None
    found = [one]
    while found[-1] != other:
        found.append(came[found[-1]])
    return found


def _parts(brokers: tuple[str, ...], links: list[Link]) -> list[list[str]]:
    """The brokers that can reach each other, together."""
    part = {name: [name] for name in brokers}
    for one, other in links:
        together = part[one] + part[other]
        part.update(dict.fromkeys(together, together))
    found = {id(names): names for names in part.values()}
    return list(found.values())
