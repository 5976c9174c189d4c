"""Attachments at the cluster: uploaded, mentioned by records, served, and collected."""

from tocsin.cluster.attachments.keeper import Keeper, mentioned

__all__ = ["Keeper", "mentioned"]
