"""A sum of products that can be shown with the numbers put in."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

_UNITS = (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")


class Term(Struct, frozen=True):
    """`count` things at `price` each."""

    things: str
    count: float
    price: float
    unit: str
    """Of the price: µs, B or nothing."""

    @property
    def value(self) -> float:
        return self.count * self.price

    def __str__(self) -> str:
        return f"{self.things} {short(self.count)} × {short(self.price)}{_after(self.unit)}"


class Formula(Struct, frozen=True):
    """What is computed, as a sum over things, times `scale` for its unit."""

    of: str
    terms: Sequence[Term]
    unit: str
    scale: float = 1.0

    @property
    def value(self) -> float:
        return self.scale * sum(term.value for term in self.terms)

    def __str__(self) -> str:
        shown = " + ".join(str(term) for term in self.terms if term.value) or "nothing"
        return f"{self.of} = {shown} = {short(self.value)}{_after(self.unit)}"


def cores(terms: Sequence[Term]) -> Formula:
    """Microseconds of CPU in each second."""
    return Formula("cores", terms, "", 1e-6)


def short(value: float) -> str:
    """50000 → 50k; three digits that count."""
    for size, sign in _UNITS:
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{sign}"
    return f"{value:.3g}"


def _after(unit: str) -> str:
    return f" {unit}" if unit else ""
