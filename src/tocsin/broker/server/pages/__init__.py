"""Attachments at a broker: its page cache, live."""

from tocsin.broker.server.pages.pages import Coming, Pages
from tocsin.broker.server.pages.shelf import make_shelf

__all__ = ["Coming", "Pages", "make_shelf"]
