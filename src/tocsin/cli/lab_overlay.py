"""`tocsin lab simulate overlay`: message caches in a tree of brokers, for any numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.output import err, show_table
from tocsin.cli.progress import Watch
from tocsin.errors import InvalidInput

SHOWN = {
    "absorption_time": "absorption time (s)",
    "hops": "hops to the nearest response",
    "responses": "responses",
    "delivered": "delivered responses",
    "slots_searched": "cache slots searched",
    "links": "links crossed",
    "delivery_ratio": "delivery ratio",
}


def register(simulate: typer.Typer) -> None:
    simulate.command()(overlay)


def overlay(
    brokers: Annotated[int | None, typer.Option(help="N, in a balanced binary tree")] = None,
    messages: Annotated[int, typer.Option(help="M: published once, at the beginning")] = 25,
    slots: Annotated[int, typer.Option(help="k: of each broker's cache")] = 6,
    client_rate: Annotated[
        float, typer.Option(help="λ: clients a second that come, for one message at one broker")
    ] = 0.2,
    client_load: Annotated[
        float, typer.Option(help="ρ = λ/μ: clients of one message at one broker, on average")
    ] = 0.45,
    policy: Annotated[
        str, typer.Option(help="basic, leaf, or caching-request-priority such as sel-fld-prt")
    ] = "basic",
    runs: Annotated[int, typer.Option(help="how many")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="another seed, other runs")] = 1,
    duration: Annotated[
        float, typer.Option(help="seconds until a run ends; 0: when all messages are gone")
    ] = 0.0,
    tree: Annotated[
        Path | None,
        typer.Option(help='another tree, a TOML file: links = [["a", "b"], ["a", "c"]]'),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="a line of JSON")] = False,
) -> None:
    """How long messages stay in the caches of a tree of brokers, and what requests for them cost
    (overlay, section V). Half-widths are of 95 % confidence intervals."""
    from tocsin.lab.simulators.overlay.measures import measures, told
    from tocsin.lab.simulators.overlay.simulator import simulate
    from tocsin.lab.workloads.tree import TreeLoad
    from tocsin.overlay.topology import read_tree
    from tocsin.policies.message import parse_message_policy

    chosen = parse_message_policy(policy)
    given = None if tree is None else read_tree(_text(tree))
    if given is not None and brokers is None:
        brokers = len(given.brokers)
    load = TreeLoad(
        brokers=7 if brokers is None else brokers,
        messages=messages,
        slots=slots,
        client_rate=client_rate,
        client_load=client_load,
        duration_s=duration,
    )
    with Watch(err) as watch:
        watch.begin("runs", runs)
        seen = simulate(load, chosen, runs=runs, seed=seed, tree=given, progress=watch.advance)
    if as_json:
        print(json.dumps({"policy": policy, **told(seen)}))
        return
    found = measures(seen)
    show_table(
        ["measure", "mean", "±"],
        [
            [name, f"{found[key].value:.4g}", f"{found[key].half:.2g}"]
            for key, name in SHOWN.items()
        ],
    )
    left = 1 - seen.gone.mean()
    if left > 0:
        err.print(f"{left:.1%} of the messages were still there when the runs ended")


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {file}: {error}", field="tree") from None
