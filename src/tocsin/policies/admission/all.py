"""Everything."""

from __future__ import annotations

from tocsin.policies.admission import ADMISSION, Memory


@ADMISSION.register("all")
def everything(memory: Memory, waiting: int, first: float, second: float) -> bool:
    """Cache whatever somebody waits for (BAD, Algorithm 1, PUT; kafka's "unlimited")."""
    return True
