"""`tocsin lab simulate overlay`: message caches in a tree of brokers, for any numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from tocsin.cli.commands import Fields
from tocsin.cli.output import err, show_table
from tocsin.cli.progress import Watch
from tocsin.errors import InvalidInput
from tocsin.lab.workloads.tree import TreeLoad

SHOWN = {
    "absorption_time": "absorption time (s)",
    "hops": "hops to the nearest response",
    "responses": "responses",
    "delivered": "delivered responses",
    "slots_searched": "cache slots searched",
    "links": "links crossed",
    "delivery_ratio": "delivery ratio",
}


Load = Annotated[
    TreeLoad, Fields(but=("brokers",), written={"duration_s": "duration"})
]  # a tree says how many brokers there are


def overlay(
    load: Load,
    brokers: Annotated[int | None, typer.Option(help="N, in a balanced binary tree")] = None,
    policy: Annotated[
        str, typer.Option(help="basic, leaf, or caching-request-priority such as sel-fld-prt")
    ] = "basic",
    runs: Annotated[int, typer.Option(help="how many")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="another seed, other runs")] = 1,
    tree: Annotated[
        Path | None,
        typer.Option(help='another tree, a TOML file: links = [["a", "b"], ["a", "c"]]'),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="a line of JSON")] = False,
) -> None:
    """How long messages stay in the caches of a tree of brokers, and what requests for them cost
    (overlay V). Half-widths are of 95 % confidence intervals."""
    from tocsin.lab.simulators.overlay.measures import measures, to_dict
    from tocsin.lab.simulators.overlay.simulator import simulate
    from tocsin.overlay.topology import read_tree
    from tocsin.policies.message import parse_message_policy

    chosen = parse_message_policy(policy)
    given = None if tree is None else read_tree(_text(tree))
    if brokers is None:
        brokers = load.brokers if given is None else len(given.brokers)
    load = replace(load, brokers=brokers)
    with Watch(err) as watch:
        watch.begin("runs", runs)
        seen = simulate(load, chosen, runs=runs, seed=seed, tree=given, progress=watch.advance)
    if as_json:
        print(json.dumps({"policy": policy, **to_dict(seen)}))
        return
    means = measures(seen)
    rows = [
        [name, f"{means[key].value:.4g}", f"{means[key].half:.2g}"] for key, name in SHOWN.items()
    ]
    show_table(["measure", "mean", "±"], rows)
    left = 1 - seen.gone.mean()
    if left > 0:
        err.print(f"{left:.1%} of the messages were still there when the runs ended")


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {file}: {error}", field="tree") from None
