"""Request: where does a request for old messages go?

`reaches(interested, *parameters) -> bool`: is a request passed on to, and answered by, a broker
behind which (in which) there is so much interest? One file a policy.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.policies.registry import Registry

Reaches = Callable[..., bool]

REQUEST: Registry[Reaches] = Registry("request", "message_policy", stateful=False)
REQUEST.find_all(__name__, __path__)
