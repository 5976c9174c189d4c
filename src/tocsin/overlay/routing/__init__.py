"""Routing between brokers: subscriptions forwarded, publications passed on, old messages recalled.
Sans-I/O: `Router` is one broker's part of it."""

from tocsin.overlay.routing.effects import (
    Asked,
    Deliver,
    Fill,
    Gap,
    Recall,
    Relink,
    RoutingEffect,
    Send,
)
from tocsin.overlay.routing.recall import RecallCounters
from tocsin.overlay.routing.router import Router
from tocsin.protocol.link import (
    Assured,
    Message,
    Publication,
    Request,
    Response,
    ResultsFound,
    ResultsWanted,
    Subscriptions,
)

__all__ = [
    "Asked",
    "Assured",
    "Deliver",
    "Fill",
    "Gap",
    "Message",
    "Publication",
    "Recall",
    "RecallCounters",
    "Relink",
    "Request",
    "Response",
    "ResultsFound",
    "ResultsWanted",
    "Router",
    "RoutingEffect",
    "Send",
    "Subscriptions",
]
