"""`tocsin lab admission`: records of the kafka paper's authors, or our own, under admission
policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli.output import err, show_table
from tocsin.cli.values import listed, pairs_from
from tocsin.errors import InvalidInput, SettingError

if TYPE_CHECKING:
    from tocsin.lab.workloads.offers.offers import Offers, Subscription

PAPERS = ("none", "threshold(0.3,0.2)", "mean(50)", "buffer(0.5,0.5)", "all")
SHOWN = {
    "policy": "policy",
    "hit_rate": "hit rate",
    "admitted": "admitted",
    "duplication_factor": "duplication factor",
    "delivery_hit_rate": "hits of deliveries",
    "latency_mean_s": "latency (s)",
    "throughput_per_s": "records/s",
    "stored_mean_bytes": "bytes in logs",
}
Set = Annotated[
    list[str] | None, typer.Option("--set", help="a setting of the records or logs: FIELD=VALUE")
]


def replay(
    file: Annotated[Path, typer.Argument(help="records, a line each: producer,bitmap")],
    policy: Annotated[
        list[str] | None, typer.Option(help="admission policies; none given: the paper's five")
    ] = None,
    subscriptions: Annotated[
        Path | None,
        typer.Option(help="who wants what, a line each: consumer,bitmap; else the paper's three"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="of the times of publication")] = 1,
    set_: Set = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="all measures, a line of JSON for each policy")
    ] = False,
) -> None:
    """Play a file of records under each policy: what is admitted, copied, and how long it takes."""
    from tocsin.lab.simulators.consumer_logs import Logs, simulate
    from tocsin.lab.spec.settings import converted, divided
    from tocsin.lab.workloads.offers import PaperSettings
    from tocsin.policies import parse_admission

    try:
        policies = [parse_admission(text) for text in listed(policy) or PAPERS]
    except SettingError as error:
        raise InvalidInput(error.message, field="policy", hint=error.hint) from None
    hint = "the file tells: name another file"
    given, costs = divided(
        pairs_from(set_), (PaperSettings, Logs), dict.fromkeys(("records", "file", "digest"), hint)
    )
    logs = converted(costs, Logs)
    offers = _recorded_offers(file, subscriptions, given, seed)
    _show(
        [{"policy": chosen.text, **simulate(offers, chosen, logs).row()} for chosen in policies],
        as_json,
    )


def _recorded_offers(
    file: Path, subscriptions: Path | None, given: dict[str, Any], seed: int
) -> Offers:
    import numpy as np

    from tocsin.lab.spec.settings import converted
    from tocsin.lab.workloads.offers import PaperSettings
    from tocsin.lab.workloads.offers.files import read_records, read_subscriptions
    from tocsin.lab.workloads.offers.paper import offers_of
    from tocsin.lab.workloads.offers.vocabulary import Vocabulary

    sizes = {name: given[name] for name in Vocabulary.__struct_fields__ if name in given}
    vocabulary = converted(sizes, Vocabulary)
    recorded = read_records(file, vocabulary)
    wanted = None
    if subscriptions is not None:
        wanted = read_subscriptions(subscriptions, vocabulary)
        given["subscriptions"] = [vocabulary.bitmap(values) for _, values in wanted]
    settings = converted({**given, "file": str(file)}, PaperSettings)
    random = np.random.default_rng(seed)
    return offers_of(settings, recorded, wanted or settings.wanted(), random)


def _show(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        for row in rows:
            print(json.dumps(row))
        return
    show_table(list(SHOWN.values()), [[_figure(row[name]) for name in SHOWN] for row in rows])
    unmatched = int(rows[0]["unmatched"])
    if unmatched:
        err.print(f"{unmatched} records are for nobody and count nowhere", style="yellow")


def make(
    file: Annotated[Path, typer.Argument(help="the file to write: producer,bitmap a line")],
    crowd: Annotated[
        bool, typer.Option("--crowd", help="thousands of consumers instead of the paper's three")
    ] = False,
    subscriptions: Annotated[
        Path | None, typer.Option(help="write who wants what, too: consumer,bitmap a line")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="another seed, other records")] = 1,
    set_: Set = None,
) -> None:
    """Make records, and write them as the paper's authors did."""
    from tocsin.lab.workloads.offers.files import write_records, write_subscriptions

    for target in (file, subscriptions):
        if target is not None and target.exists():
            raise InvalidInput(f"{target} exists already", field="file", hint="name a new file")
    offers, wanted = (_crowd if crowd else _paper)(pairs_from(set_), seed)
    try:
        write_records(offers, file)
        if subscriptions is not None:
            write_subscriptions(offers.vocabulary, wanted, subscriptions)
    except OSError as error:
        raise InvalidInput(f"cannot write: {error}", field="file") from None
    err.print(
        f"{len(offers)} records for {offers.consumers} consumers: {file}",
        soft_wrap=True,
        highlight=False,
    )


def _crowd(pairs: dict[str, str], seed: int) -> tuple[Offers, list[Subscription]]:
    from tocsin.lab.spec.settings import converted, divided
    from tocsin.lab.workloads.offers.crowd import CrowdSettings, crowd_offers, crowd_subscriptions

    (given,) = divided(pairs, (CrowdSettings,))
    settings = converted(given, CrowdSettings)
    return crowd_offers(settings, seed), crowd_subscriptions(settings, seed)


def _paper(pairs: dict[str, str], seed: int) -> tuple[Offers, list[Subscription]]:
    from tocsin.lab.spec.settings import converted, divided
    from tocsin.lab.workloads.offers.paper import PaperSettings, paper_offers

    hint = "records are made here: leave it out"
    (given,) = divided(pairs, (PaperSettings,), {"file": hint, "digest": hint})
    settings = converted(given, PaperSettings)
    return paper_offers(settings, seed), settings.wanted()


def _figure(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if isinstance(value, int) or value >= 1000 else f"{value:.4g}"
