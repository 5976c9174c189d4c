"""`tocsin lab model survival` and `tocsin lab simulate survival`: how long messages survive."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct

from tocsin.cli.commands import Fields
from tocsin.cli.output import err, out, show_table
from tocsin.cli.progress import Watch
from tocsin.cli.values import check_target
from tocsin.errors import InvalidInput, SettingError
from tocsin.lab.workloads.messages import MessageLoad

Load = Annotated[MessageLoad, Fields()]
OneClass = Annotated[MessageLoad, Fields(but=("unpopular_share", "unpopular_rate"))]
Policy = Annotated[str, typer.Option(help="sel|all - sub|fld - prt|nop")]
Curve = dict[str, Any]


class Output(Struct, frozen=True, kw_only=True):
    """How a survival curve is shown."""

    picture: Annotated[Path | None, typer.Option(help="draw the curve into this file (.png)")] = (
        None
    )
    as_json: Annotated[bool, typer.Option("--json", help="a line of JSON")] = False

    def check(self) -> None:
        check_target(self.picture, "picture")

    def show(
        self,
        curves: dict[str, Curve],
        plain: Callable[[], dict[str, Any]],
        table: Callable[[], None],
    ) -> None:
        """The picture that was asked for; then a line of JSON, or the table and the curves."""
        if self.picture is not None:
            from tocsin.lab.reports.survival_curve import draw

            draw(curves, self.picture)
        if self.as_json:
            print(json.dumps(plain()))
            return
        table()
        if out.is_terminal:
            from tocsin.cli.chart import chart

            named = {
                f"P(T > t), {name}": (curve["time_s"], curve["survives"])
                for name, curve in curves.items()
            }
            out.print(chart(named, "s"))


def model(
    load: OneClass,
    output: Output,
    policy: Policy = "sel-sub-prt",
    model: Annotated[
        str, typer.Option(help="exact, reduced (one broker), multi, balanced or wide")
    ] = "balanced",
    start: Annotated[
        str, typer.Option(help="of the exact model: stationary, or binomial as the paper prints it")
    ] = "stationary",
) -> None:
    """How long a message survives in the caches, by a Markov model."""
    from tocsin.lab.models.lifetime import SHARES
    from tocsin.lab.models.named import model as model_of

    output.check()
    lifetime = model_of(model, load, policies_named([policy])[0], start)  # type: ignore[arg-type]  # it checks
    plain = lifetime.to_dict()

    def table() -> None:
        rows = [["mean survival time (s)", figure(lifetime.mst)]]
        rows += [["never cached", share(lifetime.p_loss)]]
        rows += [[f"{part:.0%} gone after (s)", figure(lifetime.quantile(part))] for part in SHARES]
        show_table([f"{model}, {policy}", ""], rows)

    output.show({model: plain["curve"]}, lambda: plain, table)


def simulate(
    load: Load,
    output: Output,
    policy: Policy = "sel-sub-prt",
    messages: Annotated[int, typer.Option(help="how many are measured")] = 50_000,
    seed: Annotated[int, typer.Option(min=0, help="another seed, another run")] = 1,
) -> None:
    """How long a message survives in the caches, in a simulation."""
    from tocsin.lab.simulators.message_cache import measures
    from tocsin.lab.simulators.message_cache.simulator import settling
    from tocsin.lab.simulators.message_cache.simulator import simulate as play

    output.check()
    chosen = policies_named([policy])[0]
    with Watch(err) as watch:
        watch.begin("publications", settling(load) + messages)
        lives = play(load, chosen, messages=messages, seed=seed, progress=watch.advance)
    plain = measures.to_dict(lives)
    output.show(
        {"simulated": plain["curve"]},
        lambda: plain,
        lambda: show_table([f"simulated, {policy}", "± 95 %"], _rows(lives)),
    )


def _rows(lives: Any) -> list[list[str]]:
    from tocsin.lab.simulators.message_cache import measures

    rows = [
        ["mean survival time (s)", interval(measures.mean_survival(lives))],
        ["the same by Little's law (s)", interval(measures.little(lives))],
        ["never cached", interval(measures.lost(lives), share)],
    ]
    if not lives.load.one_class:
        for name, unpopular in (("popular", False), ("unpopular", True)):
            mean = measures.of_class(lives, unpopular=unpopular)
            rows.append([f"mean of {name} messages (s)", interval(mean)])
    rows += [
        [f"{part:.0%} gone after (s)", interval(measures.quantile(lives, part))]
        for part in measures.SHARES
    ]
    copies = float(lives.replicas @ lives.alive) / lives.alive.sum()
    return [
        *rows,
        ["copies of a message", figure(copies)],
        ["events a second", f"{lives.events / lives.seconds:,.0f}"],
    ]


def policies_named(texts: list[str] | None) -> list[Any]:
    """All that are modelled, if none is named."""
    from tocsin.lab.models.rates import MODELLED
    from tocsin.policies.message import message_policy_names, parse_message_policy

    try:
        chosen = [parse_message_policy(text) for text in texts or message_policy_names()]
    except SettingError as error:
        raise InvalidInput(error.message, field="policy", hint=error.hint) from None
    if texts:
        return chosen
    return [policy for policy in chosen if all(map(set.__contains__, MODELLED, policy.parts))]


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10_000 else f"{value:,.4g}"


def share(value: float) -> str:
    return f"{100 * value:.4g} %"


def interval(mean: Any, written: Callable[[float], str] = figure) -> str:
    value = written(mean.value)
    return value if math.isnan(mean.half) else f"{value} ± {written(mean.half)}"
