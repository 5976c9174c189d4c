"""The broker as a process: sockets, REST and the link to the cluster around the core."""

from tocsin.broker.server.server import Broker, run

__all__ = ["Broker", "run"]
