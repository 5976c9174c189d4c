"""Nothing."""

from __future__ import annotations

from tocsin.policies.admission import ADMISSION


@ADMISSION.register("none", admits=False)
def nothing(waiting: int) -> bool:
    """No cache at all: every get goes to the result store (BAD, Figure 7; kafka, "Data Flow")."""
    return False
