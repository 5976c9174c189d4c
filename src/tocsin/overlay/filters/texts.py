"""Ranges of text that are combined with conditions on a suffix or on parts.

A range of text is either finite ('a', 'a' + code 0, …) or holds, for some stem, everything that
begins with it. In the second case it contains a text with any given suffix and parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tocsin.overlay.filters.filter import Constraint
from tocsin.overlay.filters.keys import MAX_CODE_POINT, count_keys, end_of_prefix
from tocsin.overlay.filters.ranges import EVERYTHING, Range, Ranges, gaps, united

FILLER = "\x01"


def is_finite(range_: Range) -> bool:
    return range_[1] is not None and count_keys("text", range_[0] or "", range_[1]) != float("inf")


def texts_in(range_: Range) -> Iterator[str]:
    """All texts of a finite range."""
    low = range_[0] or ""
    for zeros in range(len(range_[1]) - len(low)):
        yield low + "\0" * zeros


def stem_in(range_: Range) -> str:
    """A prefix such that every text with it is in the range, which is not finite."""
    low, high = range_[0] or "", range_[1]
    if high is None or not high.startswith(low):
        return str(low)
    more = high[len(low) :]
    return str(low + "\0" * (len(more) - len(more.lstrip("\0")) + 1))


def common_prefix(range_: Range) -> str:
    """The longest prefix that all texts of a range share."""
    low, high = range_[0] or "", range_[1]
    same = 0
    if high is not None:
        while same < min(len(low), len(high)) and low[same] == high[same]:
            same += 1
        if same == len(low):
            return str(low)
        if end_of_prefix(low[: same + 1]) != high:
            return str(low[:same])
        same += 1
    while same < len(low) and low[same] == MAX_CODE_POINT:
        same += 1
    return str(low[:same])


def implies_part(constraint: Constraint, part: str) -> bool:
    """Does every text that the constraint allows contain the part?

    Sound always. Not complete for a range that is neither a prefix nor finite: its common prefix
    counts, not what else its texts may share.
    """
    if part in constraint.suffix or any(part in other for other in constraint.contains):
        return True
    return all(
        all(part in text for text in texts_in(range_) if constraint.fits(text))
        if is_finite(range_)
        else part in common_prefix(range_)
        for range_ in constraint.ranges
    )


def implies_suffix(constraint: Constraint, suffix: str) -> bool:
    if constraint.suffix.endswith(suffix):
        return True
    return all(
        is_finite(range_)
        and all(text.endswith(suffix) for text in texts_in(range_) if constraint.fits(text))
        for range_ in constraint.ranges
    )


def narrowed(constraint: Constraint) -> Ranges:
    """The ranges of a constraint with patterns, in canonical form: of finite ranges only the texts
    that fit, no finite gap in which no text fits, and each end as short as the patterns allow."""
    kept: list[Range] = []
    for range_ in constraint.ranges:
        if is_finite(range_):
            kept += [(text, text + "\0") for text in texts_in(range_) if constraint.fits(text)]
        else:
            kept.append((_shortest(constraint, range_[0]), _shortest(constraint, range_[1])))
    if kept and kept[0][0]:
        kept += _idle(constraint, ("", kept[0][0]))
    for gap in gaps(united(kept)):
        kept += _idle(constraint, gap)
    ranges = united(kept)
    return EVERYTHING if ranges == (("", None),) else ranges


def _shortest(constraint: Constraint, end: Any) -> Any:
    """The canonical form of an end: `< 'a'` and `<= 'a'` are equal if 'a' does not fit."""
    while end and end.endswith("\0") and not constraint.fits(end[:-1]):
        end = end[:-1]
    return end


def _idle(constraint: Constraint, gap: Range) -> list[Range]:
    nothing = is_finite(gap) and not any(constraint.fits(text) for text in texts_in(gap))
    return [gap] if nothing else []
