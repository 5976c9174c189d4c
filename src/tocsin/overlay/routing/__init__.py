"""Routing between brokers: subscriptions forwarded, publications passed on, old messages recalled.
Sans-I/O: `Router` is one broker's part of it."""

from tocsin.overlay.routing.effects import Asked, Deliver, Effect, Fill, Gap, Recall, Relink, Send
from tocsin.overlay.routing.messages import (
    Assured,
    Message,
    Publication,
    Request,
    Response,
    ResultsFound,
    ResultsWanted,
    Subscriptions,
)
from tocsin.overlay.routing.recall import RecallCounters
from tocsin.overlay.routing.router import Router

__all__ = [
    "Asked",
    "Assured",
    "Deliver",
    "Effect",
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
    "Send",
    "Subscriptions",
]
