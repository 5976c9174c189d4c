"""Gateways: they take publishers' connections, check and encode what is sent, and hand it on to the
cluster that leads."""

from tocsin.gateway.service import run

__all__ = ["run"]
