"""Other ways for a channel's results to leave than brokers: Kafka topics, and consumer logs."""

from tocsin.cluster.deliveries.deliveries import Deliveries

__all__ = ["Deliveries"]
