"""Servers for a test run, each started when the first test asks for it."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from tocsin.dev.throwaway import AnyServer, Throwaway


class RealServers(Throwaway):
    """One of each kind. They end with the test run, even if it is killed."""

    def start(self, kind: type[AnyServer], *, short_lived: bool = True) -> AnyServer:
        for server in self.started:
            if type(server) is kind:
                return server
        if reason := kind.missing():
            skip_or_fail(reason)
        return super().start(kind, short_lived=short_lived)

    def heal(self) -> None:
        for server in self.started:
            server.heal()


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test; where everything has to be there (CI=true), fail it."""
    if os.environ.get("CI", "").lower() in ("true", "1", "yes"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
