"""Priority: where does a cached message move when one of its clients comes or leaves?

`moves(clients, arrived, *parameters) -> STAY | TOP | BOTTOM | DROP`, where `clients` are those
that are there after the change. One file a policy.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.policies.registry import Registry

Moves = Callable[..., int]

STAY, TOP, BOTTOM, DROP = range(4)

PRIORITY: Registry[Moves] = Registry("priority", "message_policy", stateful=False)
PRIORITY.find_all(__name__, __path__)
