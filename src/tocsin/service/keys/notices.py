"""What signs notices of the cluster for each broker.

With the shared secret, that. With public keys there is none, so each broker is given a secret of
its own when it registers: no broker can make notices for another. They all follow from one that
stays in the cluster's data directory, so that a cluster which starts again need not be told.
"""

from __future__ import annotations

import hashlib
import hmac

from tocsin.service.secret import kept_secret
from tocsin.service.tokens import check_secret
from tocsin.settings import Settings

FILE = "notice-secret"


class NoticeSecrets:
    def __init__(self, settings: Settings) -> None:
        public = bool(settings.token_keys or settings.token_issuer)
        self._shared = check_secret(settings.secret) if not public else ""
        self._root = kept_secret(settings.data / FILE) if public else ""

    def of(self, broker: str) -> str:
        if self._shared:
            return self._shared
        name = b"notices for " + broker.encode()
        return hmac.new(self._root.encode(), name, hashlib.sha256).hexdigest()

    def handed_out(self, broker: str) -> str | None:
        """What the broker must be told; None: it has it already."""
        return None if self._shared else self.of(broker)
