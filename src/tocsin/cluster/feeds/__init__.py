"""Datasets that are fed from topics of Kafka which others fill."""

from tocsin.cluster.feeds.feeds import Feeds

__all__ = ["Feeds"]
