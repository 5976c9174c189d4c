"""What a broker decides of attachments: which it fetches, keeps, drops and serves. No bytes."""

from tocsin.broker.machine.pages.pages import Pages

__all__ = ["Pages"]
