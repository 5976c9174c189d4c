"""The widest of a set of filters: those that no other filter of the set covers. They match the same
records as the whole set, so a neighbour needs to know only them (overlay II).

The widest depend on the set alone, not on the order of additions and removals: if the sets are
equal, so are the tables at both ends of a link.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from tocsin.overlay.filters.covering import covers
from tocsin.overlay.filters.filter import Filter
from tocsin.overlay.filters.index import FilterIndex
from tocsin.overlay.filters.samples import Samples
from tocsin.overlay.filters.text_form import as_text
from tocsin.overlay.filters.witness import witness


class Change(Struct, frozen=True):
    """Filters that have become the widest, and those that no longer are."""

    come: tuple[Filter, ...] = ()
    gone: tuple[Filter, ...] = ()


_NONE = Change()


class Widest:
    """Filters of one dataset."""

    def __init__(self) -> None:
        self._over: dict[Filter, Filter | None] = {}  # what covers it; None: it is one of them
        self._under: dict[Filter, dict[Filter, None]] = {}  # of the widest, what they cover
        self._index = FilterIndex()
        self._samples = Samples()

    def __iter__(self) -> Iterator[Filter]:
        return iter(self._under)

    def __len__(self) -> int:
        return len(self._under)

    def __contains__(self, filter_: object) -> bool:
        """Is it in the set, widest or not?"""
        return filter_ in self._over

    def add(self, filter_: Filter) -> Change:
        if filter_ in self._over:
            return _NONE
        over = self._covering(filter_)
        if over is not None:
            self._put_under(over, filter_)
            return _NONE
        candidates = self._samples.perhaps_under(filter_)
        gone = [candidate for candidate in candidates if _is_over(filter_, candidate)]
        self._raise(filter_)
        for narrower in gone:
            for below in self._lower(narrower):
                self._put_under(filter_, below)
            self._put_under(filter_, narrower)
        return Change((filter_,), tuple(gone))

    def remove(self, filter_: Filter) -> Change:
        if filter_ not in self._over:
            return _NONE
        over = self._over.pop(filter_)
        if over is not None:
            del self._under[over][filter_]
            return _NONE
        come: dict[Filter, None] = {}
        for narrower in self._lower(filter_):
            del self._over[narrower]
            change = self.add(narrower)
            come.update(dict.fromkeys(change.come))
            for lower in change.gone:  # it came before the wider filter did
                del come[lower]
        return Change(tuple(come), (filter_,))

    def _covering(self, filter_: Filter) -> Filter | None:
        keys = witness(filter_)
        candidates = self._index if keys is None else self._index.match_keys(keys)
        return next((candidate for candidate in candidates if _is_over(candidate, filter_)), None)

    def _put_under(self, over: Filter, filter_: Filter) -> None:
        self._over[filter_] = over
        self._under[over][filter_] = None

    def _raise(self, filter_: Filter) -> None:
        self._over[filter_] = None
        self._under[filter_] = {}
        self._index.add(filter_)
        self._samples.add(filter_)

    def _lower(self, filter_: Filter) -> list[Filter]:
        """Take it out of the widest. The caller gives the filters that it covered another place."""
        self._index.remove(filter_)
        self._samples.remove(filter_)
        return list(self._under.pop(filter_))


def _is_over(wide: Filter, narrow: Filter) -> bool:
    """Does it cover the other? Of two that cover each other, the first by text is the wider."""
    if not covers(wide, narrow):
        return False
    return not covers(narrow, wide) or as_text(wide) < as_text(narrow)
