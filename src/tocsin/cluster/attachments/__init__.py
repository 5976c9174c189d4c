"""Attachments at the cluster: uploaded, mentioned by records, served, and collected."""

from tocsin.cluster.attachments.keeper import Keeper, mentioned
from tocsin.cluster.attachments.mentions import Mentions

__all__ = ["Keeper", "Mentions", "mentioned"]
