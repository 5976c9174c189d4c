"""Facts about ranges of text that suffixes and parts are asked beside.

A range of text is either finite ('a', 'a' + code 0, …) or holds, for some stem, everything that
begins with it: then there is a text in it with any suffix and any parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tocsin.overlay.filters.filter import Constraint
from tocsin.overlay.filters.keys import MAX_CODE_POINT, count_keys, end_of_prefix
from tocsin.overlay.filters.ranges import EVERYTHING, Range, Ranges, gaps, united

FILLER = "\x01"


def is_finite(one: Range) -> bool:
    return one[1] is not None and count_keys("text", one[0] or "", one[1]) != float("inf")


def texts_in(one: Range) -> Iterator[str]:
    """All texts of a finite range."""
    low = one[0] or ""
    for zeros in range(len(one[1]) - len(low)):
        yield low + "\0" * zeros


def stem_in(one: Range) -> str:
    """All that begins with it is in the range, which is not finite."""
    low, high = one[0] or "", one[1]
    if high is None or not high.startswith(low):
        return str(low)
    more = high[len(low) :]
    return str(low + "\0" * (len(more) - len(more.lstrip("\0")) + 1))


def common_prefix(one: Range) -> str:
    """What all texts of a range begin with."""
    low, high = one[0] or "", one[1]
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


def implies_part(one: Constraint, part: str) -> bool:
    """Does every text that the constraint allows contain the part?

    Sound always. Not complete for a range that is neither a prefix nor finite: its common prefix
    counts, not what else its texts may share.
    """
    if part in one.suffix or any(part in other for other in one.contains):
        return True
    return all(
        all(part in text for text in texts_in(each) if one.fits(text))
        if is_finite(each)
        else part in common_prefix(each)
        for each in one.ranges
    )


def implies_suffix(one: Constraint, suffix: str) -> bool:
    if one.suffix.endswith(suffix):
        return True
    return all(
        is_finite(each) and all(text.endswith(suffix) for text in texts_in(each) if one.fits(text))
        for each in one.ranges
    )


def narrowed(one: Constraint) -> Ranges:
    """The ranges of a constraint with patterns, as equal ones have them: of finite ranges what
    fits, no finite gaps that nothing would fill, and ends that say nothing of what does not fit."""
    kept: list[Range] = []
    for each in one.ranges:
        if is_finite(each):
            kept += [(text, text + "\0") for text in texts_in(each) if one.fits(text)]
        else:
            kept.append((_shortest(one, each[0]), _shortest(one, each[1])))
    if kept and kept[0][0]:
        kept += _idle(one, ("", kept[0][0]))
    for gap in gaps(united(kept)):
        kept += _idle(one, gap)
    found = united(kept)
    return EVERYTHING if found == (("", None),) else found


def _shortest(one: Constraint, end: Any) -> Any:
    """Ends that differ by texts which do not fit, such as `< 'a'` and `<= 'a'`, are one."""
    while end and end.endswith("\0") and not one.fits(end[:-1]):
        end = end[:-1]
    return end


def _idle(one: Constraint, gap: Range) -> list[Range]:
    nothing = is_finite(gap) and not any(one.fits(text) for text in texts_in(gap))
    return [gap] if nothing else []
