"""The same figures for a page, drawn with plotly: hover for values, click a policy to hide it.

Traces are plain dictionaries: plotly's objects check each property, which takes seconds a report.
"""

from __future__ import annotations

import math
from typing import Any

from plotly.io import to_html
from plotly.offline import get_plotlyjs

from tocsin.lab.reports.curves import Curve, Panel
from tocsin.lab.reports.looks import (
    BAND,
    COLOURS,
    GRID,
    PLOTLY_DASHES,
    PLOTLY_MARKERS,
    Look,
    look,
    rows_and_columns,
)
from tocsin.lab.spec.figures import Figure

HEIGHT_PIXELS, BETWEEN_PIXELS = 480, 110
GREY = "#666666"
LINES = {"gridcolor": GRID, "zerolinecolor": GRID}
Trace = dict[str, Any]


def script() -> str:
    """What the page needs once, so that it works without a network."""
    return str(get_plotlyjs())


def division(figure: Figure, panels: list[Panel], policies: list[str]) -> str:
    """The figure as a <div> for a page that has the script."""
    traces: list[Trace] = []
    listed: set[str] = set()  # one entry in the legend for all panels
    for number, panel in enumerate(panels, start=1):
        for trace in _traces(panel, policies):
            trace |= {"xaxis": f"x{number}", "yaxis": f"y{number}"}
            if trace["showlegend"]:
                trace["showlegend"] = trace["legendgroup"] not in listed
                listed.add(trace["legendgroup"])
            traces.append(trace)
    return str(
        to_html(
            {"data": traces, "layout": _layout(figure, panels)},
            full_html=False,
            include_plotlyjs=False,
            div_id=f"figure-{figure.name}",
            config={"displaylogo": False, "responsive": True},
            validate=False,
        )
    )


def _layout(figure: Figure, panels: list[Panel]) -> dict[str, Any]:
    rows, columns = rows_and_columns(len(panels))
    layout: dict[str, Any] = {
        "height": rows * HEIGHT_PIXELS,
        "font": {"size": 14, "color": "#222222"},
        "plot_bgcolor": "white",
        "hovermode": "x unified",
        "hoverlabel": {"font": {"size": 12}},
        "legend": {"font": {"size": 12}, "tracegroupgap": 0},
        "margin": {"l": 70, "r": 20, "t": 50, "b": 60},
        "annotations": [],
    }
    for number, panel in enumerate(panels, start=1):
        across, up = _domains(number, rows, columns, 0.04 if figure.one_scale else 0.07)
        layout[f"xaxis{number}"] = _x_axis(panel, number) | {"domain": across}
        layout[f"yaxis{number}"] = _y_axis(figure, number, columns) | {"domain": up}
        layout["annotations"].append(
            {
                "text": f"variant: {panel.variant}",
                "x": sum(across) / 2,
                "y": up[1],
                "xref": "paper",
                "yref": "paper",
                "yanchor": "bottom",
                "showarrow": False,
            }
        )
    return layout


def _domains(number: int, rows: int, columns: int, gap: float) -> tuple[list[float], list[float]]:
    """From where to where a panel reaches, across and up; numbers count from 1."""
    width = (1 - gap * (columns - 1)) / columns
    between = BETWEEN_PIXELS / (rows * HEIGHT_PIXELS)
    height = (1 - between * (rows - 1)) / rows
    row, column = divmod(number - 1, columns)
    left, top = column * (width + gap), 1 - row * (height + between)
    return [left, left + width], [max(0.0, top - height), top]


def _x_axis(panel: Panel, number: int) -> dict[str, Any]:
    title = {"text": "" if panel.names else panel.axis.label}
    axis = {"anchor": f"y{number}", "title": title, **LINES}
    return axis | _ticks(panel) if panel.axis.logarithmic and not panel.names else axis


def _y_axis(figure: Figure, number: int, columns: int) -> dict[str, Any]:
    """The leftmost panels have the title."""
    first = (number - 1) % columns == 0
    axis: dict[str, Any] = {"anchor": f"x{number}", **LINES}
    if first:
        axis["title"] = {"text": figure.axis}
    if figure.one_scale and number > 1:
        axis |= {"matches": "y", "showticklabels": first}
    return axis


def _ticks(panel: Panel) -> dict[str, Any]:
    """Values on a logarithmic axis, themselves as ticks."""
    ticks = sorted({x for curve in panel.curves for x in curve.xs})
    labels = [f"{tick:,g}" for tick in ticks]
    return {"type": "log", "tickmode": "array", "tickvals": ticks, "ticktext": labels}


def _named_traces(panel: Panel) -> list[Trace]:
    """What stands side by side: a mark and its interval each."""
    traces = []
    for curve in panel.curves:
        above = [high - mean for high, mean in zip(curve.high, curve.mean, strict=True)]
        marks = _line(curve.label, curve.xs, curve.mean, curve.label or "means")
        traces.append(
            marks
            | {
                "x": panel.names,
                "mode": "markers",
                "marker": {
                    "color": COLOURS[0],
                    "size": 9,
                    "symbol": "circle-open" if curve.dash == "dashed" else "circle",
                },
                "error_y": {
                    "type": "data",
                    "array": [0.0 if math.isnan(height) else height for height in above],
                },
                "hovertemplate": "%{y:.5g}",
                "showlegend": bool(curve.label),
            }
        )
    return traces


def _traces(panel: Panel, policies: list[str]) -> list[Trace]:
    if panel.names:
        return _named_traces(panel)
    traces = [trace for curve in panel.curves for trace in _curve_traces(curve, policies)]
    if panel.allowed:
        allowed = _line("allowed", panel.allowed, panel.allowed, "allowed")
        allowed["line"]["dash"] = "dash"
        traces.insert(0, allowed)
    if panel.bound is not None:
        sizes = panel.bound.xs
        reached = _line("reached with foresight", sizes, panel.bound.reached, "bound")
        best = _line("optimum lies here", sizes, panel.bound.best, "bound")
        shade = {"fill": "tonexty", "fillcolor": "rgba(150,150,150,0.5)"}
        traces = [reached | {"showlegend": False}, best | shade, *traces]
    return traces


def _line(name: str, sizes: list[float], values: list[float], group: str) -> Trace:
    return {
        "type": "scatter",
        "x": sizes,
        "y": values,
        "name": name,
        "mode": "lines",
        "line": {"color": GREY, "width": 1},
        "legendgroup": group,
        "showlegend": True,
    }


def _mode(curve: Curve, style: Look) -> str:
    if curve.drawn == "points":
        return "markers"
    return "lines+markers" if style.marker and curve.drawn == "curve" else "lines"


def _curve_traces(curve: Curve, policies: list[str]) -> list[Trace]:
    style = look(curve.policy, policies)
    half = [(high - low) / 2 for high, low in zip(curve.high, curve.low, strict=True)]
    banded = not any(math.isnan(value) for value in half)
    line = _line(curve.label, curve.xs, curve.mean, curve.label) | {
        "mode": _mode(curve, style),
        "line": {"color": style.colour, "width": style.width, "dash": PLOTLY_DASHES[curve.dash]},
        "marker": {"symbol": PLOTLY_MARKERS[style.marker], "size": 8},
        "hovertemplate": "%{y:.5g}",
    }
    if not banded:
        return [line]
    if curve.drawn == "points":
        return [line | {"error_y": {"type": "data", "array": half}}]
    line |= {"customdata": half, "hovertemplate": "%{y:.5g} ± %{customdata:.2g}"}
    red, green, blue = (int(style.colour[k : k + 2], 16) for k in (1, 3, 5))
    band = _line(
        curve.label,
        curve.xs + curve.xs[::-1],
        curve.high + curve.low[::-1],
        curve.label,
    ) | {
        "line": {"width": 0},
        "fill": "toself",
        "fillcolor": f"rgba({red},{green},{blue},{BAND})",
        "hoverinfo": "skip",
        "showlegend": False,
    }
    return [band, line]
