"""Visits to a tree of brokers: what every request finds, and what is made of that.

What the running system's routers and caches answer over links that take no time (`live`) stands
beside the answers of live brokers, request by request: both are `Answers`, measured alike.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.lab.simulators.overlay.live import play_live
from tocsin.lab.simulators.overlay.simulator import numbered
from tocsin.lab.simulators.overlay.story import Happening, Kind
from tocsin.lab.workloads.visits import Visits
from tocsin.overlay.topology import balanced
from tocsin.policies.message import MessagePolicy

NOBODY = -1
ROOT = 0  # where publications enter a live tree


class Answers(Struct, frozen=True, kw_only=True):
    """To the requests of all who came after the publications, in their order."""

    hops: NDArray[np.int64]  # to where the first response came from; NOBODY: there was none
    responses: int  # all that were made
    delivered: int  # those that reached the asking client's broker undropped

    @property
    def answered(self) -> NDArray[np.bool_]:
        return np.not_equal(self.hops, NOBODY)


class Foretold(Struct, frozen=True):
    held: int  # in all caches, once the messages are published
    answers: Answers


def foretell(visits: Visits, policy: MessagePolicy) -> Foretold:
    """In a balanced tree."""
    load = visits.load
    early, later = _story(visits)
    publish = [Happening("publishes", ROOT, message) for message in range(load.messages)]
    story = [*early, *publish, *later]
    steps = play_live(story, balanced(numbered(load.brokers)), load.messages, load.slots, policy)
    begun = len(early) + len(publish)
    hops = []
    for at in range(begun, len(story)):
        if story[at].kind == "comes":
            before, after = steps[at - 1].counts, steps[at].counts
            answered = after["answered"] > before["answered"]
            hops.append(after["hops"] - before["hops"] if answered else NOBODY)
    last = steps[-1].counts
    return Foretold(
        held=sum(len(cache) for cache in steps[begun - 1].caches),
        answers=Answers(
            hops=np.array(hops, np.int64),
            responses=last["responses"],
            delivered=last["delivered"],
        ),
    )


def measures_of(visits: Visits, answers: Answers) -> dict[str, float]:
    """As those of the simulator; what there is no request for is not among them."""
    requests, answered = len(answers.hops), int(answers.answered.sum())
    row = {"absorption_time": _absorption_s(visits, answers)}
    if requests:
        row["delivery_ratio"] = answered / requests
    if answered:
        row["hops"] = float(answers.hops[answers.answered].mean())
        row["responses"] = answers.responses / answered
        row["delivered"] = answers.delivered / answered
    row["there_share"] = row["absorption_time"] / visits.load.duration_s
    return row


def _absorption_s(visits: Visits, answers: Answers) -> float:
    """Mean over all messages, as requests show it: a message went in the middle between the last
    request that was answered and the next one. What nobody wanted was never there."""
    load, early = visits.load, visits.early
    message, at_s = visits.message[early:], visits.came_s[early:]
    wanted = np.unique(visits.message[:early])
    gone_s = [
        _gone_s(at_s[message == number], answers.answered[message == number], load.duration_s)
        for number in wanted
    ]
    return float(sum(gone_s)) / load.messages


def _gone_s(at_s: NDArray[np.float64], answered: NDArray[np.bool_], duration_s: float) -> float:
    places = np.flatnonzero(answered)
    last = int(places[-1]) if len(places) else -1
    if last == len(at_s) - 1 and len(places):
        return duration_s
    before = float(at_s[last]) if len(places) else 0.0
    after = float(at_s[last + 1]) if last + 1 < len(at_s) else duration_s
    return (before + after) / 2


def _story(visits: Visits) -> tuple[list[Happening], list[Happening]]:
    """Who is there early; and who comes and leaves until the end."""
    cells = list(zip(visits.broker.tolist(), visits.message.tolist(), strict=True))
    came = _timed("comes", visits.came_s, cells)
    left = _timed("leaves", visits.left_s, cells)
    later = sorted([*came[visits.early :], *left], key=lambda timed: timed[0])
    return (
        [happening for _, happening in came[: visits.early]],
        [happening for at_s, happening in later if at_s < visits.load.duration_s],
    )


def _timed(
    kind: Kind, at_s: NDArray[np.float64], cells: list[tuple[int, int]]
) -> list[tuple[float, Happening]]:
    return [
        (time_s, Happening(kind, *cell)) for time_s, cell in zip(at_s.tolist(), cells, strict=True)
    ]
