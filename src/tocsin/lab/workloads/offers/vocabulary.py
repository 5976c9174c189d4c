"""How an offer is written as bits: restaurant, food, discount, each as wide as its number of
values.

The paper's two restaurants, four foods and three discounts take five bits: 10001 is restaurant 1,
food 0, discount 1 (kafka, Figure 2). A subscription is written the same way; stars stand for an
attribute that is left open: 1**01 is that restaurant and that discount with any food.
"""

from __future__ import annotations

from msgspec import Struct

from tocsin.errors import SettingError

ATTRIBUTES = ("restaurant", "food", "discount")
OPEN = -1
Values = tuple[int, int, int]  # of the attributes, in their order


class Vocabulary(Struct, frozen=True):
    """How many values each attribute has."""

    restaurants: int = 2
    foods: int = 4
    discounts: int = 3

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not 1 <= getattr(self, name) <= 1_000_000:
                raise SettingError(
                    f"{name} is {getattr(self, name)}", field=name, hint="1 to 1,000,000"
                )

    @property
    def counts(self) -> Values:
        return self.restaurants, self.foods, self.discounts

    @property
    def contents(self) -> int:
        """How many different offers there are."""
        return self.restaurants * self.foods * self.discounts

    @property
    def widths(self) -> Values:
        """Bits of each attribute; one that has a single value takes none."""
        restaurants, foods, discounts = ((count - 1).bit_length() for count in self.counts)
        return restaurants, foods, discounts

    @property
    def bits(self) -> int:
        return sum(self.widths)

    def bitmap(self, values: Values) -> str:
        """Of an offer, or of a subscription with open attributes."""
        return "".join(
            "*" * width if value == OPEN else f"{value:0{width}b}" if width else ""
            for value, width in zip(values, self.widths, strict=True)
        )

    def values(self, bitmap: str, *, may_be_open: bool = False) -> Values:
        """What a bitmap says; a ValueError tells what is wrong with it."""
        if len(bitmap) != self.bits:
            raise ValueError(f"{bitmap!r} has {len(bitmap)} bits, not {self.bits}")
        values, at = [], 0
        for name, count, width in zip(ATTRIBUTES, self.counts, self.widths, strict=True):
            part = bitmap[at : at + width]
            at += width
            if may_be_open and part and set(part) == {"*"}:
                values.append(OPEN)
            elif set(part) - {"0", "1"}:
                stars = " (stars stand for a whole attribute)" if may_be_open else ""
                raise ValueError(f"the {name} in {bitmap!r} is {part!r}, no bits{stars}")
            else:
                value = int(part or "0", 2)
                if value >= count:
                    raise ValueError(
                        f"the {name} in {bitmap!r} is {value}: there are {count}, from 0 on"
                    )
                values.append(value)
        restaurant, food, discount = values
        return restaurant, food, discount
