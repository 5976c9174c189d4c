"""The bytes of attachments at a broker: fetched, kept and served as the machine decides."""

from tocsin.broker.server.pages.page_bytes import Coming, PageBytes
from tocsin.broker.server.pages.shelf import make_shelf

__all__ = ["Coming", "PageBytes", "make_shelf"]
