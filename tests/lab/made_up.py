"""Tables of points with values that a test chooses, so that claims can be made to hold or fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

POLICIES = ("lru", "lsc", "lscz", "lsd", "exp", "ttl", "fifo", "gdsf", "return-rate")
SIZES = (50_000_000, 100_000_000)
Value = Callable[[str, int, int], float]  # policy, size, seed


def table(
    values: dict[str, Value],
    *,
    policies: Sequence[str] = POLICIES,
    sizes: Sequence[int] = SIZES,
    seeds: int = 3,
    variants: Sequence[str] = ("always",),
) -> pd.DataFrame:
    """One row a point; `values` by column. A little noise that all policies of a seed share."""
    return pd.DataFrame(
        [
            {
                "kind": "simulation",
                "variant": variant,
                "policy": policy,
                "size_bytes": size,
                "seed": seed,
                "sources": "made up",
                **{name: value(policy, size, seed) for name, value in values.items()},
            }
            for variant in variants
            for policy in policies
            for size in sizes
            for seed in range(1, seeds + 1)
        ]
    )


def ranked(order: Sequence[str], step: float, base: float = 0.0) -> Value:
    """The first of `order` is highest. Larger caches have more, each seed is a little different."""

    def value(policy: str, size: int, seed: int) -> float:
        place = order.index(policy) if policy in order else len(order)
        return base + step * (len(order) - place) + size / 1e10 + seed * 0.01

    return value


def with_bounds(points: pd.DataFrame, best: dict[str, Value]) -> pd.DataFrame:
    """A bound for each size of the first seed."""
    cells = points.loc[points["seed"] == 1, ["variant", "size_bytes"]].drop_duplicates()
    bounds = [
        {
            "kind": "bound",
            "variant": variant,
            "policy": "",
            "size_bytes": size,
            "seed": 1,
            "sources": "made up",
            **{f"best_{name}": value("", size, 1) for name, value in best.items()},
            **{f"reached_{name}": value("", size, 1) for name, value in best.items()},
        }
        for variant, size in cells.itertuples(index=False)
    ]
    return pd.concat([points, pd.DataFrame(bounds)], ignore_index=True)
