"""Nothing."""

from __future__ import annotations

from tocsin.policies.admission import ADMISSION, Memory


@ADMISSION.register("none")
def nothing(memory: Memory, waiting: int, first: float, second: float) -> bool:
    """No cache at all: every get goes to the result store (BAD's "NC", Fig. 7; kafka's "none")."""
    return False
