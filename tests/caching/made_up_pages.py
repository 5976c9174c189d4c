"""Operations at a page cache, made up by Hypothesis; each page has one size."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tocsin.lab.workloads.pages.operations import (
    BROWSE,
    NOTIFIED,
    PUBLISH,
    RENEWED,
    SUPERSEDED,
    Operations,
)
from tocsin.policies.page import page_policy_names

POLICIES = st.sampled_from(
    [*page_policy_names(), "gdstar(2)", "sg2(2)", "hug(0.5)", "dc(2)", "dc-ta(0.25)", "dc-ta(1)"]
)
CAPACITIES = st.integers(0, 40)
KINDS = (PUBLISH, PUBLISH, BROWSE, BROWSE, NOTIFIED, NOTIFIED, NOTIFIED, SUPERSEDED, RENEWED)


@st.composite
def operations(
    draw: st.DrawFn,
    *,
    sizes: tuple[int, ...] = (1, 2, 3, 4, 5, 7, 10),
    most: int = 80,
    pages: int = 12,
) -> Operations:
    pages = draw(st.integers(2, pages))
    size = draw(st.lists(st.sampled_from(sizes), min_size=pages, max_size=pages))
    one = st.tuples(st.sampled_from(KINDS), st.integers(0, pages - 1), st.integers(0, 8))
    rows = draw(st.lists(one, min_size=1, max_size=most))
    kind, page, subscriptions = (list(column) for column in zip(*rows, strict=True))
    return Operations(
        np.array(kind, np.uint8),
        np.array(page, np.int32),
        np.array([size[number] for number in page], np.int64),
        np.array(subscriptions, np.int32),
        pages,
    )
