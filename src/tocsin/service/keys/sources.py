"""Where public keys come from: a file, an address, or a provider that says where they are.

To look a key up never waits for a network: what is remote is fetched on a thread of its own, at
most once in a while however many tokens name keys that nobody knows, and what was fetched before
stays good while its place is away.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import httpx
import msgspec
import structlog

from tocsin.errors import SettingError
from tocsin.protocol.keys import ProviderConfiguration
from tocsin.service.keys.files import WatchedFile
from tocsin.service.keys.jwk import VerificationKey
from tocsin.service.keys.key_sets import MOST_BYTES, Keys, NoKeySet, read_key_set
from tocsin.settings import without_secrets

log = structlog.get_logger()

RETRY_S = 10.0  # between two fetches, at least
REFRESH_S = 300.0  # a key that was taken away is no longer taken after so long, at most
FETCH_S = 5.0
DISCOVERY = "/.well-known/openid-configuration"


class KeySource(Protocol):
    """All calls come from the event loop, and none waits."""

    version: int
    """Grows whenever the keys are others."""

    @property
    def ready(self) -> bool:
        """Whether keys could be read at all."""

    def find(self, kid: str) -> VerificationKey | None: ...

    def look_up(self) -> Future[None] | None:
        """A key is not known: look whether there are new ones. None: nothing is to be learnt."""

    def poll(self) -> None:
        """To be called regularly."""


class KeyFile:
    """Keys in a file: a change of it counts at the next look. One that is spoilt, or gone, changes
    nothing."""

    def __init__(self, path: Path, setting: str = "token_keys") -> None:
        self.version = 0
        self._file = WatchedFile(path)
        self._spoilt = ""
        try:
            body = self._file.changed()
        except OSError as error:
            raise SettingError(
                f"cannot read the keys {path}: {error.strerror}", field=setting
            ) from None
        if body is None:
            hint = f"make one with: tocsin keys new, then tocsin keys add {path} KEY"
            raise SettingError(f"there are no keys in {path}", field=setting, hint=hint)
        try:
            self._keys: Keys = read_key_set(body, strict=True)
        except NoKeySet as error:
            raise SettingError(f"{path}: {error}", field=setting) from None

    @property
    def ready(self) -> bool:
        return True

    def find(self, kid: str) -> VerificationKey | None:
        if kid not in self._keys:
            self.poll()
        return self._keys.get(kid)

    def look_up(self) -> Future[None] | None:
        return None

    def poll(self) -> None:
        try:
            body = self._file.changed()
            if body is None:
                return
            keys = read_key_set(body, strict=True)
        except (OSError, NoKeySet) as error:
            if str(error) != self._spoilt:
                self._spoilt = str(error)
                log.warning(
                    "the keys cannot be read; those read before go on",
                    file=str(self._file.path),
                    reason=self._spoilt,
                )
            return
        self._spoilt = ""
        if keys != self._keys:
            self._keys = keys
            self.version += 1
            log.info("the keys of tokens are others", file=str(self._file.path), keys=sorted(keys))


class RemoteKeys:
    """Keys at an address."""

    def __init__(
        self,
        address: str,
        fetch: Callable[[httpx.Client], Keys],
        *,
        retry_s: float = RETRY_S,
        refresh_s: float = REFRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.version = 0
        self.address = address
        self._fetch = fetch
        self._retry_s = retry_s
        self._refresh_s = refresh_s
        self._clock = clock
        self._keys: Keys = {}
        self._lock = threading.Lock()
        self._under_way: Future[None] | None = None
        self._tried_at = -retry_s
        self._fetched_at: float | None = None
        self._away = ""

    @property
    def ready(self) -> bool:
        return self._fetched_at is not None

    def find(self, kid: str) -> VerificationKey | None:
        return self._keys.get(kid)

    def look_up(self) -> Future[None] | None:
        with self._lock:
            if self._under_way is not None:
                return self._under_way
            now = self._clock()
            if now - self._tried_at < self._retry_s:
                return None
            self._tried_at = now
            done: Future[None] = Future()
            self._under_way = done
        threading.Thread(target=self._work, args=(done,), name="keys", daemon=True).start()
        return done

    def poll(self) -> None:
        if self._fetched_at is None or self._clock() - self._fetched_at >= self._refresh_s:
            self.look_up()

    def _work(self, done: Future[None]) -> None:
        try:
            with httpx.Client(timeout=FETCH_S) as http:
                keys = self._fetch(http)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, NoKeySet, msgspec.DecodeError) as error:
            reason = without_secrets(str(error)) or type(error).__name__
            if reason != self._away:
                self._away = reason
                log.warning(
                    "the keys of tokens cannot be fetched; those known go on",
                    address=without_secrets(self.address),
                    reason=reason,
                )
        except Exception:
            log.exception(
                "fetching the keys of tokens failed", address=without_secrets(self.address)
            )
        else:
            self._take(keys)
        finally:
            with self._lock:
                self._under_way = None
            done.set_result(None)

    def _take(self, keys: Keys) -> None:
        self._away, self._fetched_at = "", self._clock()
        if keys != self._keys:
            self._keys = keys
            self.version += 1
            address = without_secrets(self.address)
            log.info("the keys of tokens are fetched", address=address, keys=sorted(keys))


def keys_at(url: str, *, retry_s: float = RETRY_S) -> RemoteKeys:
    """The keys of a key set at an address."""
    check_address(url, "token_keys")

    def fetch(http: httpx.Client) -> Keys:
        return _usable(_body(http, url))

    return RemoteKeys(url, fetch, retry_s=retry_s)


def keys_of_provider(issuer: str, *, retry_s: float = RETRY_S) -> RemoteKeys:
    """The keys of an OpenID Connect provider: where they are is asked with each fetch."""
    check_address(issuer, "token_issuer")
    configuration = issuer.rstrip("/") + DISCOVERY

    def fetch(http: httpx.Client) -> Keys:
        provider = msgspec.json.decode(_body(http, configuration), type=ProviderConfiguration)
        if provider.issuer != issuer:
            raise NoKeySet(f"{configuration} is of another issuer: {provider.issuer}")
        if urlsplit(provider.jwks_uri).scheme not in ("http", "https"):
            raise NoKeySet(f"{configuration} names no address of keys")
        return _usable(_body(http, provider.jwks_uri))

    return RemoteKeys(issuer, fetch, retry_s=retry_s)


def _usable(body: bytes) -> Keys:
    """A list without any key would keep everybody out; it is rather a fault of who gave it."""
    keys = read_key_set(body, strict=False)
    if not keys:
        raise NoKeySet("it has no key for signatures that is of use")
    return keys


def check_address(url: str, setting: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingError(
            f"setting {setting} must be an address, https://…, not {url!r}", field=setting
        )


def _body(http: httpx.Client, url: str) -> bytes:
    """An answer of bounded size."""
    parts, size = [], 0
    with http.stream("GET", url, headers={"accept": "application/json"}) as answer:
        answer.raise_for_status()
        for part in answer.iter_bytes():
            size += len(part)
            if size > MOST_BYTES:
                raise NoKeySet(f"{url} answers with more than {MOST_BYTES} bytes")
            parts.append(part)
    if answer.status_code != 200:
        raise NoKeySet(f"{url} answers with status {answer.status_code}")
    return b"".join(parts)
