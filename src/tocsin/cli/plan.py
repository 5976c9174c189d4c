"""`tocsin plan`: how large must caches be?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin.cli.lab_survival import (
    draw_curves,
    figure,
    interval,
    policies_named,
    share,
    show_curves,
)
from tocsin.cli.lab_trace import in_words
from tocsin.cli.output import err, out, show_table
from tocsin.cli.progress import Watch
from tocsin.cli.services import bytes_from, seconds_from
from tocsin.cli.values import check_target, listed
from tocsin.errors import InvalidInput


def register(app: typer.Typer) -> None:
    plan = typer.Typer(help="How large must caches be?", no_args_is_help=True)
    plan.callback()(_group)
    # Whatever begins with a dash and is no option is a value, and we say what is wrong with it.
    plan.command(context_settings={"ignore_unknown_options": True})(survive)
    app.add_typer(plan, name="plan")


def _group() -> None:
    """A command of its own, though there is one alone."""


def survive(
    part: Annotated[str, typer.Argument(help="of the messages, such as 99%")],
    word: Annotated[str, typer.Argument(metavar="for", help="the word “for”")],
    long: Annotated[str, typer.Argument(metavar="DURATION", help="such as 1h")],
    brokers: Annotated[int, typer.Option(help="how many")],
    rate: Annotated[str, typer.Option(help="publications: 0.8/s, 50/m, 2000/h")],
    clients: Annotated[float, typer.Option(help="of one message at one broker, on average (ρ)")],
    stay: Annotated[str, typer.Option(help="how long a client stays, on average")] = "10m",
    policy: Annotated[
        list[str] | None, typer.Option(help="policies to compare; none given: all")
    ] = None,
    copying: Annotated[
        str, typer.Option(help="which client has a message copied: every or first")
    ] = "every",
    message_size: Annotated[str, typer.Option(help="of one message, such as 2KB")] = "1KB",
    messages: Annotated[
        int | None, typer.Option(min=1, help="how many are simulated to check it")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="of the simulation")] = 1,
    picture: Annotated[
        Path | None, typer.Option(help="draw the curve into this file (.png)")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="a line of JSON")] = False,
) -> None:
    """How many slots each broker's message cache needs, and under which policy."""
    from tocsin.lab.planning import Wish, answers, checked
    from tocsin.lab.simulators.message_cache import measures
    from tocsin.lab.workloads.messages import MOST_CLIENTS, MessageLoad

    check_target(picture, "picture")
    if word != "for":
        raise InvalidInput(f"{word!r} is not “for”", field="for", hint="plan survive 99% for 1h")
    stay_s = seconds_from(stay, "stay")
    if stay_s <= 0:
        raise InvalidInput(f"clients stay for {stay}", field="stay", hint="such as 10m")
    if not 0 < clients <= MOST_CLIENTS:
        usage = f"more than 0, at most {MOST_CLIENTS}"
        raise InvalidInput(f"clients is {clients:g}", field="clients", hint=usage)
    wish = Wish(
        share=_share(part),
        for_s=seconds_from(long, "for"),
        load=MessageLoad(
            brokers=brokers,
            slots=1,
            publication_rate=_rate(rate),
            client_rate=clients / stay_s,
            client_load=clients,
            copying=copying,  # type: ignore[arg-type]  # it checks
        ),
    )
    size_bytes = _size(message_size)
    chosen = policies_named(listed(policy))
    with Watch(err) as watch:
        watch.begin("asking the model", 0)
        found = answers(wish, chosen)
        watch.begin("simulating the best", 0)
        best = checked(wish, found[0], messages, seed)
    simulated = measures.told(best.lives)["curve"]
    assert best.answer.model is not None
    curves = {"simulated": simulated, "model": best.answer.model.told()["curve"]}
    if picture is not None:
        draw_curves(curves, picture)
    if as_json:
        print(json.dumps(_told(wish, best, found, size_bytes, curves)))
        return
    rows = []
    for one in [best.answer, *found[1:]]:
        if one.model is None:
            rows.append([one.policy.text, "", "", "", "", one.reason])
            continue
        mine = one is best.answer
        rows.append(
            [
                one.policy.text,
                f"{one.slots:,}",
                in_words(one.slots * size_bytes),
                share(one.model.survives(wish.for_s)),
                interval(best.survives, share) if mine else "",
                figure(one.model.mst),
            ]
        )
    show_table(
        ["policy", "slots", "bytes", f"survive {long}, model", "simulated", "mean (s)"], rows
    )
    show_curves(curves)
    met = best.survives.value >= wish.share
    out.print(
        f"{best.answer.policy.text} with {best.answer.slots:,} slots at each broker "
        f"({in_words(best.answer.slots * size_bytes)} for messages of {message_size}): "
        f"{interval(best.survives, share)} of {len(best.lives.survival_s):,} simulated messages "
        f"survive {long}{'' if met else ', fewer than were asked for'}",
        soft_wrap=True,
        highlight=False,
    )


def _told(wish: Any, best: Any, found: Any, size_bytes: int, curves: Any) -> dict[str, Any]:
    from tocsin.lab.simulators.message_cache.measures import number

    slots = best.answer.slots
    return {
        "policy": best.answer.policy.text,
        "slots": slots,
        "bytes": slots * size_bytes,
        "survives": best.survives.value,
        "survives_half_width": number(best.survives.half),
        "survives_model": best.answer.model.survives(wish.for_s),
        "mst": best.answer.model.mst,
        "others": [
            {"policy": one.policy.text, "slots": one.slots or None, "reason": one.reason or None}
            for one in found[1:]
        ],
        "curve": curves["simulated"],
        "curve_model": curves["model"],
    }


def _share(text: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text)
    if match is None:
        raise InvalidInput(f"{text!r} is not a share", field="share", hint="such as 99%")
    return float(match[1]) / (100.0 if match[2] else 1.0)


def _rate(text: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*([smhd]))?\s*", text)
    if match is None:
        raise InvalidInput(f"{text!r} is not a rate", field="rate", hint="such as 0.8/s or 50/m")
    found = float(match[1]) / {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2] or "s"]
    if found <= 0:
        raise InvalidInput(f"nothing is published at {text}", field="rate", hint="more than 0")
    return found


def _size(text: str) -> int:
    try:
        found = bytes_from(text)
    except InvalidInput as error:
        raise InvalidInput(error.message, field="message-size", hint="such as 2KB") from None
    if not found:
        raise InvalidInput(f"a message of {text!r}", field="message-size", hint="such as 2KB")
    return found
