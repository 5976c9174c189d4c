"""Traces: what a live broker saw, and plain lists of requests; kept, checked, converted, replayed.

An *event trace* tells who subscribed, came, left, what was published and got at one broker. It
becomes a `Workload` for the simulator. A *request trace* is the common currency of cache research:
one object and its size a request. Neither carries names, parameters or payloads.
"""

from tocsin.lab.trace.events import EventTrace, Live
from tocsin.lab.trace.reader import read_trace
from tocsin.lab.trace.requests import RequestTrace

__all__ = ["EventTrace", "Live", "RequestTrace", "read_trace"]
