"""Ranges as an equality: dyadic intervals over buckets of values.

The parameters' own values cut the axis into at most 256 buckets, the leaves of a binary tree. A
parameter's interval is the union of O(log) nodes of that tree, a record's value lies under the
leaf's 9 ancestors, and the two share exactly one node iff the value's bucket lies in the interval.
They join on that node; the exact comparison follows. Nodes are numbered as in a heap: the root is
1, the children of n are 2n and 2n + 1.

Any boundaries give right answers; good ones only spread the work. Everything is text of Spark SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

DEPTH = 8
LEAVES = 1 << DEPTH
_STRIDE = 16


def choose_bounds(values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Sorted boundaries for at most LEAVES buckets, and every 16th of them (to search faster)."""
    ordered = sorted(set(values))
    most = LEAVES - 1
    if len(ordered) > most:
        ordered = [ordered[index * len(ordered) // most] for index in range(most)]
    return ordered, ordered[_STRIDE - 1 :: _STRIDE]


def bucket(value: str, bounds: str, coarse: str) -> str:
    """How many boundaries are at most `value`: the leaf it belongs to."""
    skipped = f"SIZE(FILTER({coarse}, __b -> __b <= {value}))"
    rest = f"SLICE({bounds}, {skipped} * {_STRIDE} + 1, {_STRIDE})"
    return f"({skipped} * {_STRIDE} + SIZE(FILTER({rest}, __b -> __b <= {value})))"


def ancestors(leaf: str) -> str:
    """Every node above a leaf, itself included."""
    above = f"CAST(SHIFTRIGHT({LEAVES} + {leaf}, __d) AS BIGINT)"
    return f"TRANSFORM(SEQUENCE(0, {DEPTH}), __d -> {above})"


def nodes(first: str, last: str) -> str:
    """The fewest nodes whose leaves are exactly those from `first` to `last`.

    At height d the leaves left to cover are those under the nodes [left, right); a left end that is
    a right child, and a right end that follows a left child, are taken here, the rest above.
    """
    left = f"SHIFTRIGHT({LEAVES} + {first} + SHIFTLEFT(1, __d) - 1, __d)"
    right = f"SHIFTRIGHT({LEAVES} + {last} + 1, __d)"
    taken = (
        f"ARRAY(IF({left} < {right} AND {left} % 2 = 1, CAST({left} AS BIGINT), NULL),"
        f" IF({left} < {right} AND {right} % 2 = 1, CAST({right} - 1 AS BIGINT), NULL))"
    )
    return (
        f"FILTER(FLATTEN(TRANSFORM(SEQUENCE(0, {DEPTH}), __d -> {taken})), __n -> __n IS NOT NULL)"
    )
