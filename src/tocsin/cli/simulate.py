"""`tocsin simulate`: the fault simulation, for as many seeds as one likes."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin.cli.output import complain, err, show_table
from tocsin.cli.progress import Watch
from tocsin.errors import InvalidInput


def register(app: typer.Typer) -> None:
    app.command()(simulate)


def simulate(
    seeds: Annotated[int, typer.Option(min=1, help="how many worlds of each kind")] = 100,
    first: Annotated[int, typer.Option(min=0, help="the first seed")] = 0,
    kind: Annotated[
        str | None,
        typer.Option(help="channels, cluster, leases, network, pages; none given: all"),
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="of the result caches; none given: all in turn")
    ] = None,
    happenings: Annotated[int, typer.Option(min=0, help="in each world")] = 60,
    jobs: Annotated[int, typer.Option(min=1, help="processes to run them in")] = 1,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="plant bugs, and see which of them seeds find")
    ] = False,
) -> None:
    """Whole systems in virtual time, with crashes, cuts, losses and moves; the promises are
    watched at every step. A seed that breaks one is named."""
    from tocsin.testing.simulation import KINDS

    chosen, chosen_seeds = policy or [], range(first, first + seeds)
    _check(kind, chosen)
    if mutants:
        _hunt(chosen_seeds, happenings)
        return
    from tocsin.testing.simulation.playing import play_all

    rows = []
    broken = 0
    with Watch(err) as watch:
        for name in [kind] if kind is not None else KINDS:
            watch.begin(f"{name} worlds", seeds)
            delivered = gaps = 0
            for played in play_all(name, chosen, happenings, chosen_seeds, jobs=jobs):
                if played.broken is not None:
                    broken += 1
                    complain(_named(name, played.seed, happenings, chosen, played.broken))
                delivered += played.delivered
                gaps += played.gaps
                watch.advance(1)
            rows.append([name, seeds, delivered, gaps])
    show_table(["worlds", "seeds", "results delivered", "gaps told"], rows)
    if broken:
        raise typer.Exit(1)


def _hunt(seeds: range, happenings: int) -> None:
    """Plant each bug, and run worlds until a checker finds it."""
    from tocsin.testing.simulation import KINDS
    from tocsin.testing.simulation.mutants import MUTANTS, hunt

    rows = []
    with Watch(err) as watch:
        watch.begin("mutants", len(MUTANTS))
        for mutant in MUTANTS:
            find = hunt(mutant, KINDS, seeds=seeds, happenings=happenings)
            rows.append([mutant.name, mutant.says, find.seed, round(find.seconds, 1), find.broken])
            watch.advance(1)
    show_table(["mutant", "the bug", "seed", "seconds", "what the checker says"], rows)
    alive = [str(name) for name, _, seed, *_ in rows if seed is None]
    if alive:
        complain(InvalidInput(f"not found: {', '.join(alive)}", hint="try more --seeds"))
        raise typer.Exit(1)


def _check(kind: str | None, policies: list[str]) -> None:
    from tocsin.policies import parse_policy
    from tocsin.testing.simulation import KINDS

    if kind is not None and kind not in KINDS:
        raise InvalidInput(
            f"no kind of world is called {kind!r}", field="kind", hint=" or ".join(KINDS)
        )
    for text in policies:
        parse_policy(text)


def _named(kind: str, seed: int, happenings: int, policies: list[str], broken: str) -> InvalidInput:
    again = f"tocsin simulate --kind {kind} --first {seed} --seeds 1 --happenings {happenings}"
    again += "".join(f" --policy {policy!r}" for policy in policies)
    return InvalidInput(f"{kind} world, seed {seed}: {broken}", hint=f"again with {again}")
