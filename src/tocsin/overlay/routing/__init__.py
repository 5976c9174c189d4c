"""Routing between brokers: subscriptions forwarded, publications passed on, old messages recalled.
Sans-I/O: `Router` is one broker's part of it."""

from tocsin.overlay.routing.effects import Deliver, Effect, Fill, Gap, Recall, Relink, Send
from tocsin.overlay.routing.messages import (
    Assured,
    Message,
    Publication,
    Request,
    Response,
    Subscriptions,
)
from tocsin.overlay.routing.router import Router

__all__ = [
    "Assured",
    "Deliver",
    "Effect",
    "Fill",
    "Gap",
    "Message",
    "Publication",
    "Recall",
    "Relink",
    "Request",
    "Response",
    "Router",
    "Send",
    "Subscriptions",
]
