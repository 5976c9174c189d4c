"""`tocsin lab model survival` and `tocsin lab simulate survival`: how long messages survive."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin.cli.output import err, out, show_table
from tocsin.cli.progress import Watch
from tocsin.cli.values import check_target
from tocsin.errors import InvalidInput, SettingError

Brokers = Annotated[int, typer.Option(help="n")]
Slots = Annotated[int, typer.Option(help="k, of each broker's cache")]
PublicationRate = Annotated[float, typer.Option(help="λb, a second")]
ClientRate = Annotated[
    float, typer.Option(help="λc: clients that come for one message to one broker, a second")
]
ClientLoad = Annotated[
    float, typer.Option(help="ρ = λc/μc: clients of one message at one broker, on average")
]
Copying = Annotated[str, typer.Option(help="which client has a message copied: every or first")]
Policy = Annotated[str, typer.Option(help="sel|all - sub|fld - prt|nop")]
AsJson = Annotated[bool, typer.Option("--json", help="a line of JSON")]
Picture = Annotated[Path | None, typer.Option(help="draw the curve into this file (.png)")]


def register(lab: typer.Typer, simulations: typer.Typer) -> None:
    models = typer.Typer(help="What a model says, without simulating.", no_args_is_help=True)
    models.callback()(_group)
    models.command("survival")(model)
    lab.add_typer(models, name="model")
    simulations.command("survival")(simulate)


def _group() -> None:
    """A command of its own, though there is one alone."""


def model(
    brokers: Brokers = 3,
    slots: Slots = 15,
    publication_rate: PublicationRate = 1.0,
    client_rate: ClientRate = 0.1,
    client_load: ClientLoad = 2.0,
    copying: Copying = "every",
    policy: Policy = "sel-sub-prt",
    model: Annotated[
        str, typer.Option(help="exact, reduced (one broker), multi, balanced or wide")
    ] = "balanced",
    start: Annotated[
        str, typer.Option(help="of the exact model: stationary, or binomial as the paper prints it")
    ] = "stationary",
    picture: Picture = None,
    as_json: AsJson = False,
) -> None:
    """How long a message survives in the caches, by a Markov model."""
    from tocsin.lab.models.lifetime import SHARES
    from tocsin.lab.models.named import model as modelled

    check_target(picture, "picture")
    load = _load(
        brokers=brokers,
        slots=slots,
        publication_rate=publication_rate,
        client_rate=client_rate,
        client_load=client_load,
        copying=copying,
    )
    found = modelled(model, load, policies_named([policy])[0], start)  # type: ignore[arg-type]  # it checks
    told = found.told()
    if picture is not None:
        draw_curves({model: told["curve"]}, picture)
    if as_json:
        print(json.dumps(told))
        return
    rows = [["mean survival time (s)", figure(found.mst)], ["never cached", share(found.p_loss)]]
    rows += [[f"{one:.0%} gone after (s)", figure(found.quantile(one))] for one in SHARES]
    show_table([f"{model}, {policy}", ""], rows)
    show_curves({model: told["curve"]})


def simulate(
    brokers: Brokers = 3,
    slots: Slots = 15,
    publication_rate: PublicationRate = 1.0,
    client_rate: ClientRate = 0.1,
    client_load: ClientLoad = 2.0,
    copying: Copying = "every",
    unpopular_share: Annotated[float, typer.Option(help="of the messages")] = 0.0,
    unpopular_rate: Annotated[float, typer.Option(help="λc of unpopular messages")] = 0.0,
    policy: Policy = "sel-sub-prt",
    messages: Annotated[int, typer.Option(help="how many are measured")] = 50_000,
    seed: Annotated[int, typer.Option(min=0, help="another seed, another run")] = 1,
    picture: Picture = None,
    as_json: AsJson = False,
) -> None:
    """How long a message survives in the caches, in a simulation."""
    from tocsin.lab.simulators.message_cache import measures
    from tocsin.lab.simulators.message_cache.simulator import settling
    from tocsin.lab.simulators.message_cache.simulator import simulate as play

    check_target(picture, "picture")
    load = _load(
        brokers=brokers,
        slots=slots,
        publication_rate=publication_rate,
        client_rate=client_rate,
        client_load=client_load,
        copying=copying,
        unpopular_share=unpopular_share,
        unpopular_rate=unpopular_rate,
    )
    chosen = policies_named([policy])[0]
    with Watch(err) as watch:
        watch.begin("publications", settling(load) + messages)
        lives = play(load, chosen, messages=messages, seed=seed, progress=watch.advance)
    told = measures.told(lives)
    curves = {"simulated": told["curve"]}
    if picture is not None:
        draw_curves(curves, picture)
    if as_json:
        print(json.dumps(told))
        return
    rows = [
        ["mean survival time (s)", interval(measures.mean_survival(lives))],
        ["the same by Little's law (s)", interval(measures.little(lives))],
        ["never cached", interval(measures.lost(lives), share)],
    ]
    if not load.one_class:
        for name, unpopular in (("popular", False), ("unpopular", True)):
            mean = measures.of_class(lives, unpopular=unpopular)
            rows.append([f"mean of {name} messages (s)", interval(mean)])
    rows += [
        [f"{one:.0%} gone after (s)", interval(measures.quantile(lives, one))]
        for one in measures.SHARES
    ]
    rows.append(
        ["copies of a message", figure(float(lives.replicas @ lives.alive) / lives.alive.sum())]
    )
    rows.append(["events a second", f"{lives.events / lives.seconds:,.0f}"])
    show_table([f"simulated, {policy}", "± 95 %"], rows)
    show_curves(curves)


def _load(**given: Any) -> Any:
    from tocsin.lab.workloads.messages import MessageLoad

    return MessageLoad(**given)


def policies_named(texts: list[str] | None) -> list[Any]:
    """All that are modelled, if none is named."""
    from tocsin.lab.models.rates import MODELLED
    from tocsin.policies.message import message_policy_names, parse_message_policy

    try:
        chosen = [parse_message_policy(text) for text in texts or message_policy_names()]
    except SettingError as error:
        raise InvalidInput(error.message, field="policy", hint=error.hint) from None
    known = [all(map(set.__contains__, MODELLED, one.parts)) for one in chosen]
    return chosen if texts else [one for one, fits in zip(chosen, known, strict=True) if fits]


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10_000 else f"{value:,.4g}"


def share(value: float) -> str:
    return f"{100 * value:.4g} %"


def interval(mean: Any, told: Any = figure) -> str:
    return told(mean.value) if math.isnan(mean.half) else f"{told(mean.value)} ± {told(mean.half)}"


def show_curves(curves: dict[str, dict[str, Any]]) -> None:
    """A picture, where somebody looks."""
    from tocsin.cli.chart import chart

    if out.is_terminal:
        named = {
            f"P(T > t), {name}": (curve["time_s"], curve["survives"])
            for name, curve in curves.items()
        }
        out.print(chart(named, "s"))


def draw_curves(curves: dict[str, dict[str, Any]], file: Path) -> None:
    from tocsin.lab.reports.survival_curve import draw

    draw(curves, file)
