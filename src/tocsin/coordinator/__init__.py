"""The broker coordination service: which brokers are alive, and which one a client should use."""

from tocsin.coordinator.registry import Registry
from tocsin.coordinator.server import app, run

__all__ = ["Registry", "app", "run"]
