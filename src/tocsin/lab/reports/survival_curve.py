"""The survival curve of one model or run as a PNG file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Canvas

from tocsin.errors import InvalidInput
from tocsin.lab.reports.frame import frame
from tocsin.lab.reports.looks import BAND, COLOURS


def draw(curves: dict[str, dict[str, Any]], file: Path) -> None:
    """By name: `time_s`, `survives`, and `half_width` where there is one."""
    canvas = Canvas(figsize=(7.2, 4.4), dpi=130, layout="constrained")
    axes = canvas.subplots()
    for (name, curve), colour in zip(curves.items(), COLOURS, strict=False):
        axes.plot(curve["time_s"], curve["survives"], label=name, color=colour)
        half = [width or 0.0 for width in curve.get("half_width", [])]
        if half:
            low, high = (
                [y + sign * width for y, width in zip(curve["survives"], half, strict=True)]
                for sign in (-1, 1)
            )
            axes.fill_between(curve["time_s"], low, high, color=colour, alpha=2 * BAND, linewidth=0)
    axes.set_xlabel("time since publication (s)")
    axes.set_ylabel("messages that survive (share)")
    axes.set_ylim(0.0, 1.02)
    frame(axes)
    axes.legend(frameon=False)
    try:
        canvas.savefig(file)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"cannot draw into {file}: {error}", field="picture", hint="such as curve.png"
        ) from None
