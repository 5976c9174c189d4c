"""`tocsin plan`: how large must caches be, and how many machines does it take?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from tocsin.cli.commands import Command, group
from tocsin.cli.lab_survival import Curve, Output, figure, interval, policies_named, share
from tocsin.cli.lab_trace import in_words
from tocsin.cli.output import err, out, show_table
from tocsin.cli.plan_capacity import capacity
from tocsin.cli.progress import Watch
from tocsin.cli.values import listed, rate_from, seconds_from, share_from, size_from
from tocsin.errors import InvalidInput
from tocsin.lab.workloads.messages import MOST_CLIENTS, MessageLoad

if TYPE_CHECKING:
    from tocsin.lab.planning import Answer, Checked, Wish


class Load(Struct, frozen=True, kw_only=True):
    """What the caches must hold."""

    brokers: Annotated[int, typer.Option(help="how many")]
    rate: Annotated[str, typer.Option(help="publications: 0.8/s, 50/m, 2000/h")]
    clients: Annotated[float, typer.Option(help="of one message at one broker, on average (ρ)")]
    stay: Annotated[str, typer.Option(help="how long a client stays, on average")] = "10m"
    copying: Annotated[
        str, typer.Option(help="which client has a message copied: every or first")
    ] = "every"

    def messages(self) -> MessageLoad:
        stay_s = seconds_from(self.stay, "stay")
        if stay_s <= 0:
            raise InvalidInput(f"clients stay for {self.stay}", field="stay", hint="such as 10m")
        if not 0 < self.clients <= MOST_CLIENTS:
            usage = f"more than 0, at most {MOST_CLIENTS}"
            raise InvalidInput(f"clients is {self.clients:g}", field="clients", hint=usage)
        return MessageLoad(
            brokers=self.brokers,
            slots=1,
            publication_rate=_rate(self.rate),
            client_rate=self.clients / stay_s,
            client_load=self.clients,
            copying=self.copying,  # type: ignore[arg-type]  # it checks
        )


class Check(Struct, frozen=True, kw_only=True):
    """How the answer is checked, and for messages of which size."""

    policy: Annotated[
        list[str] | None, typer.Option(help="policies to compare; none given: all")
    ] = None
    message_size: Annotated[str, typer.Option(help="of one message, such as 2KB")] = "1KB"
    messages: Annotated[
        int | None, typer.Option(min=1, help="how many are simulated to check it")
    ] = None
    seed: Annotated[int, typer.Option(min=0, help="of the simulation")] = 1


def register(app: typer.Typer) -> None:
    # Whatever begins with a dash and is no option is a value, and we say what is wrong with it.
    loose = {"ignore_unknown_options": True}
    commands: dict[str, Command] = {"survive": survive, "capacity": capacity}
    about = "How large must caches be? How many machines does it take?"
    group(app, "plan", about, commands, context_settings=loose)


def survive(
    part: Annotated[str, typer.Argument(help="of the messages, such as 99%")],
    word: Annotated[str, typer.Argument(metavar="for", help="the word “for”")],
    long: Annotated[str, typer.Argument(metavar="DURATION", help="such as 1h")],
    load: Load,
    check: Check,
    output: Output,
) -> None:
    """How many slots each broker's message cache needs, and under which policy."""
    from tocsin.lab.planning import Wish, answers, checked
    from tocsin.lab.simulators.message_cache import measures

    output.check()
    if word != "for":
        raise InvalidInput(f"{word!r} is not “for”", field="for", hint="plan survive 99% for 1h")
    messages = load.messages()
    wish = Wish(share=share_from(part, "share"), for_s=seconds_from(long, "for"), load=messages)
    size_bytes = size_from(check.message_size, "message-size")
    policies = policies_named(listed(check.policy))
    with Watch(err) as watch:
        watch.begin("asking the model", 0)
        by_policy = answers(wish, policies)
        watch.begin("simulating the best", 0)
        best = checked(wish, by_policy[0], check.messages, check.seed)
    others = by_policy[1:]
    assert best.answer.model is not None
    curves = {
        "simulated": measures.to_dict(best.lives)["curve"],
        "model": best.answer.model.to_dict()["curve"],
    }
    output.show(
        curves,
        lambda: _plain(wish, best, others, size_bytes, curves),
        lambda: _table(wish, best, others, size_bytes, long),
    )
    if not output.as_json:
        _conclude(wish, best, check.message_size, long)


def _table(wish: Wish, best: Checked, others: Sequence[Answer], size_bytes: int, long: str) -> None:
    rows = []
    for answer in [best.answer, *others]:
        if answer.model is None:
            rows.append([answer.policy.text, "", "", "", "", answer.reason])
            continue
        rows.append(
            [
                answer.policy.text,
                f"{answer.slots:,}",
                in_words(answer.slots * size_bytes),
                share(answer.model.survives(wish.for_s)),
                interval(best.survives, share) if answer is best.answer else "",
                figure(answer.model.mst),
            ]
        )
    show_table(
        ["policy", "slots", "bytes", f"survive {long}, model", "simulated", "mean (s)"], rows
    )


def _conclude(wish: Wish, best: Checked, message_size: str, long: str) -> None:
    slots = best.answer.slots
    memory = in_words(slots * size_from(message_size, "message-size"))
    met = best.survives.value >= wish.share
    out.print(
        f"{best.answer.policy.text} with {slots:,} slots at each broker "
        f"({memory} for messages of {message_size}): "
        f"{interval(best.survives, share)} of {len(best.lives.survival_s):,} simulated messages "
        f"survive {long}{'' if met else ', fewer than were asked for'}",
        soft_wrap=True,
        highlight=False,
    )


def _plain(
    wish: Wish,
    best: Checked,
    others: Sequence[Answer],
    size_bytes: int,
    curves: dict[str, Curve],
) -> dict[str, Any]:
    from tocsin.lab.simulators.means import number

    slots, model = best.answer.slots, best.answer.model
    assert model is not None
    return {
        "policy": best.answer.policy.text,
        "slots": slots,
        "bytes": slots * size_bytes,
        "survives": best.survives.value,
        "survives_half_width": number(best.survives.half),
        "survives_model": model.survives(wish.for_s),
        "mst": model.mst,
        "others": [
            {
                "policy": answer.policy.text,
                "slots": answer.slots or None,
                "reason": answer.reason or None,
            }
            for answer in others
        ],
        "curve": curves["simulated"],
        "curve_model": curves["model"],
    }


def _rate(text: str) -> float:
    rate = rate_from(text, "rate")
    if rate <= 0:
        raise InvalidInput(f"nothing is published at {text}", field="rate", hint="more than 0")
    return rate
