"""Everything that a table of points tells: figures, judged claims, and a report that shows all.

    figures/*.png   one a figure        claims.md, claims.parquet   every claim, every case
    report.html     interactive, one file, no network   report.md   the same, still

Made from points.parquet alone.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
from msgspec import Struct

from tocsin import __version__, durable
from tocsin.lab.experiments import experiment_named
from tocsin.lab.reports import interactive, pictures, verdicts
from tocsin.lab.reports.contests import KEY, WINNERS_KEY, contests, winners
from tocsin.lab.reports.curves import bound_of, panels
from tocsin.lab.reports.kinds import about_live, label_kinds
from tocsin.lab.spec.axis import Axis
from tocsin.lab.spec.claims import Judged, judge
from tocsin.lab.spec.experiment import RECORDED, Experiment
from tocsin.lab.spec.plan import Conditions
from tocsin.lab.sweeps.points import read_points

BOUND_KEY = (
    "The bound is computed for a few seeds, and moved by as much as the policies' mean over these "
    "differs from that over all. Point by point: claims bound-…"
)
COLOURS = {
    "reproduced": "#117733",
    "partly": "#997700",
    "not reproduced": "#882255",
    "not tested": "#777777",
}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1250px; margin: 2rem auto; padding: 0 1rem;
  color: #222; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; font-size: 14px; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem;
  border-bottom: 1px solid #ddd; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.verdict { font-weight: 600; white-space: nowrap; }
.wide { overflow-x: auto; } .quiet { color: #555; }
"""


class Report(Struct, frozen=True):
    experiment: Experiment
    conditions: Conditions
    judged: list[Judged]
    points: int


def write_report(directory: Path) -> Report:
    """Make everything anew from the directory's points."""
    table, conditions = read_points(directory)
    points = label_kinds(table)
    experiment = experiment_named(conditions.experiment)
    axis = experiment.axis
    judged = judge(experiment.claims, points, axis)
    policies = [policy for policy in dict.fromkeys(points["policy"]) if policy]
    drawn = [(figure, panels(figure, points, axis)) for figure in experiment.figures]
    drawn = [(figure, shown) for figure, shown in drawn if shown]
    (directory / "figures").mkdir(exist_ok=True)
    for figure, shown in drawn:
        pictures.draw(figure, shown, policies, directory / "figures" / f"{figure.name}.png")
    title = f"{experiment.name}: claims"
    durable.write(directory / "claims.md", verdicts.markdown(judged, title).encode())
    verdicts.write_cases(judged, directory / "claims.parquet")
    about = _about(experiment, conditions, table) + about_live(table)
    parts = _by_axis(points, axis)
    tables = (
        _winners(experiment, parts)
        + _contests(judged)
        + [
            _means(here, metric, f"{title}, by {along.label}" if len(parts) > 1 else title, along)
            for metric, title in experiment.means.items()
            if metric in points
            for along, here in parts
            if here[metric].notna().any()
        ]
    )
    still = [f"![{figure.title}](figures/{figure.name}.png)" for figure, _ in drawn]
    durable.write(
        directory / "report.md", _markdown(experiment, about, tables, still, judged).encode()
    )
    live = [
        (figure.title, interactive.division(figure, shown, policies)) for figure, shown in drawn
    ]
    durable.write(
        directory / "report.html", _page(experiment, about, tables, live, judged).encode()
    )
    return Report(experiment, conditions, judged, len(points))


class _Table(Struct, frozen=True):
    title: str
    columns: list[str]
    rows: list[list[str]]
    words: int  # columns of text before those of numbers
    key: str = ""


def _winners(experiment: Experiment, parts: list[tuple[Axis, pd.DataFrame]]) -> list[_Table]:
    standings = [
        winners(declared, here, along)
        for declared in experiment.winners
        for along, here in parts
        if declared.metric in here
    ]
    return [
        _Table(contest.says, contest.columns, contest.rows, len(contest.columns), WINNERS_KEY)
        for contest in standings
    ]


def _contests(judged: list[Judged]) -> list[_Table]:
    return [
        _Table(
            f"Cell by cell: {contest.says}",
            contest.columns,
            contest.rows,
            len(contest.columns),
            KEY,
        )
        for contest in contests(judged)
    ]


def _by_axis(points: pd.DataFrame, whole: Axis) -> list[tuple[Axis, pd.DataFrame]]:
    """Variants that go along the same axis belong into one table."""
    variants: dict[str, list[str]] = {}
    for variant in dict.fromkeys(str(variant) for variant in points["variant"]):
        variants.setdefault(whole.of(variant).label, []).append(variant)
    return [
        (whole.of(alike[0]), points[points["variant"].isin(alike)]) for alike in variants.values()
    ]


def _means(points: pd.DataFrame, metric: str, title: str, axis: Axis) -> _Table:
    """A metric's means: one row a variant and policy, one column a value of the axis."""
    simulated = points[points["kind"] == "simulation"]
    values = sorted(simulated[axis.column].unique())
    rows = []
    for variant in dict.fromkeys(simulated["variant"]):
        here = simulated[simulated["variant"] == variant]
        for policy in dict.fromkeys(here["policy"]):
            by_value = here[here["policy"] == policy].groupby(axis.column)[metric].mean()
            rows.append([str(variant), str(policy), *_cells(by_value, values)])
        bounds = points[(points["kind"] == "bound") & (points["variant"] == variant)]
        bound = bound_of(metric, here, bounds, axis)
        if bound is not None:
            by_value = pd.Series(bound.best, index=[round(x * axis.unit) for x in bound.xs])
            rows.append([str(variant), "(bound)", *_cells(by_value, values)])
    columns = ["variant", "policy", *(axis.in_words(value) for value in values)]
    bounded = any(row[1] == "(bound)" for row in rows)
    return _Table(title, columns, rows, 2, BOUND_KEY if bounded else "")


def _cells(by_value: pd.Series[float], values: list[int]) -> list[str]:
    return [f"{by_value[value]:.4f}" if value in by_value.index else "" for value in values]


def _about(experiment: Experiment, conditions: Conditions, points: pd.DataFrame) -> list[str]:
    """What was run, in sentences."""
    played = points[points["kind"].isin(["simulation", "live"])]
    kinds = points["kind"].value_counts()
    cells = ["kind", "variant", "policy", experiment.axis.column]
    seeds = played.groupby(cells)["seed"].nunique()
    seed_range = (
        f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    )
    live = f"{kinds['live']} live points, " if "live" in kinds else ""
    lines = [
        f"{experiment.purpose[0].upper()}{experiment.purpose[1:]}. Figures and claims: "
        f"{experiment.source}.",
        f"{kinds.get('simulation', 0)} simulations, {live}{kinds.get('bound', 0)} bounds; "
        f"{seed_range} seeds for each policy and value; tocsin {__version__}."
        + (" A quick look at a smaller workload." if conditions.quick else ""),
    ]
    present = set(points["variant"])
    for variant in experiment.variants:
        if variant.name in present:
            changed = _changed(experiment, conditions.variants[variant.name], set(variant.settings))
            lines.append(
                f"Variant “{variant.name}”: {variant.meaning}."
                + (f" Settings: {changed}." if changed else "")
            )
    if RECORDED in present:
        changed = _changed(experiment, conditions.variants[RECORDED], set())
        lines.append(
            f"Variant “{RECORDED}”: what was recorded."
            + (f" Settings: {changed}." if changed else "")
        )
    return lines


def _changed(experiment: Experiment, settings: dict[str, Any], but: set[str]) -> str:
    """What is not as the study, or the paper's table, has it."""
    study = experiment.study
    defaults: dict[str, Any] = {}
    for kind in (study.workload, study.environment):
        defaults |= msgspec.json.decode(msgspec.json.encode(kind()))
    return ", ".join(
        f"{key}={value}"
        for key, value in settings.items()
        if value != defaults.get(key) and key not in but
    )


def _markdown(
    experiment: Experiment,
    about: list[str],
    tables: list[_Table],
    still: list[str],
    judged: list[Judged],
) -> str:
    lines = [f"# {experiment.name}", "", *(f"{line}\n" for line in about)]
    lines += ["## Claims", "", *(f"{line}\n" for line in verdicts.tally(judged))]
    lines += ["| | claim | variant | verdict | numbers |", "|---|---|---|---|---|"]
    lines += [
        f"| {verdicts.MARKS[judgement.finding.verdict]} | {_pipe(judgement.claim.says)} "
        f"| {judgement.variant} | {verdicts.verdict(judgement)} "
        f"| {_pipe(verdicts.numbers(judgement.finding))} |"
        for judgement in judged
    ]
    lines += ["", "What was asked for, and where each fails: claims.md.", ""]
    lines += ["## Figures", "", "Means over seeds with 95 % bands.", ""]
    lines += [f"{image}\n" for image in still]
    for table in tables:
        lines += [f"## {table.title}", "", *([table.key, ""] if table.key else [])]
        lines.append(f"| {' | '.join(table.columns)} |")
        lines.append("|" + "---|" * len(table.columns))
        lines += [f"| {' | '.join(row)} |" for row in table.rows] + [""]
    return "\n".join(lines)


def _pipe(text: str) -> str:
    return text.replace("|", "\\|")


def _page(
    experiment: Experiment,
    about: list[str],
    tables: list[_Table],
    live: list[tuple[str, str]],
    judged: list[Judged],
) -> str:
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(experiment.name)}</title><style>{STYLE}</style>",
        f"<script>{interactive.script()}</script></head><body>",
        f"<h1>{escape(experiment.name)}</h1>",
        *(f"<p>{escape(line)}</p>" for line in about),
        "<h2>Figures</h2><p class=quiet>Means over seeds with 95 % bands. Hover for values; click "
        "a policy in the legend to hide it, twice to see it alone.</p>",
        *(f"<h3>{escape(title)}</h3>{division}" for title, division in live),
        "<h2>Claims</h2><p class=quiet>Differences are paired by seed; brackets are 95 % "
        "confidence intervals. A case holds when its whole interval does.</p>",
        *(f"<p>{escape(line)}</p>" for line in verdicts.tally(judged)),
        "<div class=wide><table><tr><th>claim</th><th>figure</th><th>variant</th><th>verdict</th>"
        "<th>numbers</th></tr>",
        *(_claim_row(judgement) for judgement in judged),
        "</table></div>",
        *(_table(table) for table in tables),
        "</body></html>",
    ]
    return "\n".join(parts)


def _claim_row(judgement: Judged) -> str:
    colour = COLOURS[judgement.finding.verdict]
    return (
        f"<tr><td>{escape(judgement.claim.says)}<br>"
        f"<span class=quiet>{escape(judgement.claim.rule)}</span></td>"
        f"<td>{escape(judgement.claim.where)}</td><td>{escape(judgement.variant)}</td>"
        f'<td class=verdict style="color:{colour}">{escape(verdicts.verdict(judgement))}</td>'
        f"<td>{escape(verdicts.numbers(judgement.finding))}</td></tr>"
    )


def _table(table: _Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = "".join(
        "<tr>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[: table.words])
        + "".join(f"<td class=number>{escape(cell)}</td>" for cell in row[table.words :])
        + "</tr>"
        for row in table.rows
    )
    key = f"<p class=quiet>{escape(table.key)}</p>" if table.key else ""
    return (
        f"<h2>{escape(table.title)}</h2>{key}"
        f"<div class=wide><table><tr>{head}</tr>{rows}</table></div>"
    )
