"""Whose fault it is that a query failed which many share. Pure: the caller tries."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def find_culprits(
    channels: Sequence[str], failure: Callable[[Sequence[str]], Exception | None]
) -> dict[str, Exception]:
    """The channels that fail by themselves, and on what: found by halving. None may be, if they
    fail only together, or not again."""
    error = failure(channels) if channels else None
    if error is None:
        return {}
    if len(channels) == 1:
        return {channels[0]: error}
    middle = len(channels) // 2
    return find_culprits(channels[:middle], failure) | find_culprits(channels[middle:], failure)
