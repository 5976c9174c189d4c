"""Everything."""

from __future__ import annotations

from tocsin.policies.admission import ADMISSION


@ADMISSION.register("all", admits=True)
def everything(waiting: int) -> bool:
    """Cache whatever somebody waits for (BAD, Algorithm 1; kafka, "Data Flow")."""
    return True
