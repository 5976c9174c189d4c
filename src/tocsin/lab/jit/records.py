"""Records that kernels work on: an array of them is read field by field, compiled or not."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import fields

from tocsin.lab.jit.functions import JIT


def record_dtype(*parts: type[Struct] | list[tuple[str, str]], **narrow: str) -> np.dtype[Any]:
    """The fields of structs (whole numbers and floats), and further ones, as one record. Fields may
    be given narrower types by name; then the widest come first, so that there are no holes."""
    described: list[tuple[str, str]] = []
    for part in parts:
        if isinstance(part, list):
            described += part
        else:
            kinds = {int: "i8", float: "f8", "int": "i8", "float": "f8"}
            described += [
                (field.name, narrow.get(field.name, kinds[field.type])) for field in fields(part)
            ]
    if narrow:
        described.sort(key=lambda field: -np.dtype(field[1]).itemsize)
    return np.dtype(described, align=True)


def records(length: int, dtype: np.dtype[Any]) -> Any:
    """Zeroed records whose fields are read as attributes, compiled or not."""
    zeros = np.zeros(length, dtype)
    return zeros if JIT else zeros.view(np.recarray)
