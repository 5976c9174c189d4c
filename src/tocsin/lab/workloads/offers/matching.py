"""Which consumers subscribed to each content: all subscriptions that fix the same attributes are
looked up together, so the work grows with the matches, not with consumers × contents."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from tocsin.lab.workloads.offers.vocabulary import OPEN, Vocabulary

Matches = tuple[NDArray[np.int64], NDArray[np.int32]]


def match(
    vocabulary: Vocabulary,
    contents: NDArray[np.int32],
    consumer: NDArray[np.int32],
    wanted: NDArray[np.int32],
) -> Matches:
    """For each content where its consumers begin, and the consumers.

    `contents` has a row of values each; `wanted` a row for each subscription, whose consumer is in
    `consumer`, with `OPEN` where any value will do. A consumer with several subscriptions that
    match is told once.
    """
    found_contents, found_consumers = [], []
    for fixed in product((False, True), repeat=3):
        of_kind = ((wanted != OPEN) == fixed).all(axis=1)
        if not of_kind.any():
            continue
        keys = _keys(vocabulary, wanted[of_kind], fixed)
        order = np.argsort(keys, kind="stable")
        keys, who = keys[order], consumer[of_kind][order]
        sought = _keys(vocabulary, contents, fixed)
        begin, end = np.searchsorted(keys, sought, "left"), np.searchsorted(keys, sought, "right")
        counts = end - begin
        found_contents.append(np.repeat(np.arange(len(contents)), counts))
        starts = np.repeat(begin - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        found_consumers.append(who[starts + np.arange(int(counts.sum()))])
    if not found_contents:
        return np.zeros(len(contents) + 1, np.int64), np.zeros(0, np.int32)
    base = int(consumer.max()) + 1
    pairs = np.unique(np.concatenate(found_contents) * base + np.concatenate(found_consumers))
    counted = np.bincount(pairs // base, minlength=len(contents))
    first = np.concatenate([[0], np.cumsum(counted)]).astype(np.int64)
    return first, (pairs % base).astype(np.int32)


def _keys(
    vocabulary: Vocabulary, values: NDArray[np.int32], fixed: tuple[bool, ...]
) -> NDArray[np.int64]:
    """One number for the fixed attributes together."""
    key = np.zeros(len(values), np.int64)
    for column, (count, is_fixed) in enumerate(zip(vocabulary.counts, fixed, strict=True)):
        if is_fixed:
            key = key * count + values[:, column]
    return key
