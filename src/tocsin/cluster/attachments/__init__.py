"""Attachments at the cluster: uploaded, mentioned by records, served, and collected."""

from tocsin.cluster.attachments.attachment_store import AttachmentStore
from tocsin.cluster.attachments.mentions import Mentions

__all__ = ["AttachmentStore", "Mentions"]
