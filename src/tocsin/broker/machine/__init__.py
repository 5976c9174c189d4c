"""One broker, sans I/O: events in, effects out. `BrokerMachine` is all of it."""

from tocsin.broker.machine.machine import BrokerMachine, MachineConfig

__all__ = ["BrokerMachine", "MachineConfig"]
