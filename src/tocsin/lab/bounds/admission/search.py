"""A choice of records that knows the future: begin with some choice, and change one record after
the other as long as that makes more hits. Counts hits as windows see them; whoever wants to be
certain plays the choice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.lab.bounds.admission.windows import Windows
from tocsin.lab.jit.functions import compiled

PASSES = 8  # at most


@compiled
def _hits(
    first: int, end: int, record: Any, size_bytes: Any, admitted: Any, retention_bytes: int,
    reference: int,
) -> int:  # fmt: skip
    """Of one window: the newest entries that fit, as far as they are admitted."""
    left, hits = retention_bytes, 0
    for entry in range(end - 1, first - 1, -1):
        is_admitted = admitted[record[entry]]
        left -= size_bytes[entry] if is_admitted else reference
        if left < 0:
            break
        hits += is_admitted
    return hits


@compiled
def _improve(
    first: Any, window: Any, record: Any, size_bytes: Any, first_of: Any, entry_of: Any,
    admitted: Any, retention_bytes: int, reference: int, passes: int,
) -> int:  # fmt: skip
    windows = first.shape[0] - 1
    hits = np.zeros(windows, np.int64)
    for at in range(windows):
        hits[at] = _hits(
            first[at], first[at + 1], record, size_bytes, admitted, retention_bytes, reference
        )
    for _ in range(passes):
        changed = False
        for number in range(admitted.shape[0]):
            admitted[number] = not admitted[number]
            gain = 0
            for place in range(first_of[number], first_of[number + 1]):
                at = window[entry_of[place]]
                gain += _hits(
                    first[at], first[at + 1], record, size_bytes, admitted, retention_bytes,
                    reference,
                ) - hits[at]  # fmt: skip
            if gain <= 0:
                admitted[number] = not admitted[number]
                continue
            changed = True
            for place in range(first_of[number], first_of[number + 1]):
                at = window[entry_of[place]]
                hits[at] = _hits(
                    first[at], first[at + 1], record, size_bytes, admitted, retention_bytes,
                    reference,
                )  # fmt: skip
        if not changed:
            break
    return int(hits.sum())


def improved(
    windows: Windows, admitted: NDArray[np.bool_], passes: int = PASSES
) -> tuple[int, NDArray[np.bool_]]:
    """Hits, and the choice, that such changes lead to."""
    choice = admitted.copy()
    hits = _improve(
        windows.first, windows.window, windows.record, windows.size_bytes, windows.first_of,
        windows.entry_of, choice, windows.retention_bytes, windows.reference_bytes, passes,
    )  # fmt: skip
    return hits, choice
