"""`tocsin lab admission`: records of the kafka paper's authors, or our own, under admission
policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.output import err, show_table
from tocsin.cli.values import listed, pairs_from
from tocsin.errors import InvalidInput, SettingError

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


def register(lab: typer.Typer) -> None:
    admission = typer.Typer(
        help="What to write into consumers' logs: files of records under admission policies.",
        no_args_is_help=True,
    )
    admission.command()(replay)
    admission.command()(make)
    lab.add_typer(admission, name="admission")


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
    import numpy as np

    from tocsin.lab.declaring.settings import converted, divided
    from tocsin.lab.simulators.consumer_logs import Logs, simulate
    from tocsin.lab.workloads.offers import PaperSettings
    from tocsin.lab.workloads.offers.files import read_records, read_subscriptions
    from tocsin.lab.workloads.offers.paper import offers_of
    from tocsin.lab.workloads.offers.vocabulary import Vocabulary
    from tocsin.policies import parse_admission

    try:
        policies = [parse_admission(text) for text in listed(policy) or PAPERS]
    except SettingError as error:
        raise InvalidInput(error.message, field="policy", hint=error.hint) from None
    told = "the file tells: name another file"
    given, costs = divided(
        pairs_from(set_), (PaperSettings, Logs), {"records": told, "file": told, "digest": told}
    )
    logs = converted(costs, Logs)
    sizes = {name: given[name] for name in Vocabulary.__struct_fields__ if name in given}
    vocabulary = converted(sizes, Vocabulary)
    recorded = read_records(file, vocabulary)
    if subscriptions is not None:
        wanted = read_subscriptions(subscriptions, vocabulary)
        given["subscriptions"] = [vocabulary.bitmap(values) for _, values in wanted]
    settings = converted({**given, "file": str(file)}, PaperSettings)
    if subscriptions is None:
        wanted = settings.wanted()
    offers = offers_of(settings, recorded, wanted, np.random.default_rng(seed))
    rows = [{"policy": one.text, **simulate(offers, one, logs).row()} for one in policies]
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
    from tocsin.lab.declaring.settings import converted, divided
    from tocsin.lab.workloads.offers import (
        CrowdSettings,
        PaperSettings,
        crowd_offers,
        paper_offers,
    )
    from tocsin.lab.workloads.offers.crowd import crowd_subscriptions
    from tocsin.lab.workloads.offers.files import write_records, write_subscriptions

    for target in (file, subscriptions):
        if target is not None and target.exists():
            raise InvalidInput(f"{target} exists already", field="file", hint="name a new file")
    pairs = pairs_from(set_)
    if crowd:
        (given,) = divided(pairs, (CrowdSettings,))
        many = converted(given, CrowdSettings)
        offers, wanted = crowd_offers(many, seed), crowd_subscriptions(many, seed)
    else:
        made = "records are made here: leave it out"
        (given,) = divided(pairs, (PaperSettings,), {"file": made, "digest": made})
        few = converted(given, PaperSettings)
        offers, wanted = paper_offers(few, seed), few.wanted()
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


def _figure(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if isinstance(value, int) or value >= 1000 else f"{value:.4g}"
