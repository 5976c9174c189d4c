"""TLS for listeners: certificates checked when a service starts, and taken up anew when renewed.

What is wrong with a file is told with the name of its setting. A certificate that is replaced on
disk counts for the next connection; those that are open go on with the one they began with. Whoever
speaks plain HTTP to a listener with a certificate is told so in plain HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import structlog
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from tocsin.errors import InvalidInput, SettingError
from tocsin.protocol.failure import error_body
from tocsin.settings import Settings

log = structlog.get_logger()

LOOK_S = 1.0  # how often the files are looked at
HANDSHAKE_S = 10.0  # who connects and does not shake hands is cut off
NOT_TLS = ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER")
"""How OpenSSL calls what is no TLS."""

Stamp = tuple[tuple[int, int, int], ...]


class Certificate:
    """The certificate of a service's listeners. `context` is what they are made with: the same one
    for all, for as long as the service runs."""

    def __init__(self, file: Path, key: Path | None = None) -> None:
        self._file = file
        self._key = key or file
        self._stamp = self._stamped()
        self._refused = ""
        self._current = self._loaded()
        self.context = _Listening(ssl.PROTOCOL_TLS_SERVER)
        self._load_into(self.context)
        # A context keeps one certificate for each kind of key, so that a renewed one of another
        # kind would stand beside the old one. Each connection takes the newest context instead.
        self.context.sni_callback = self._take_current

    def refresh(self) -> None:
        """Take up what was replaced on disk. What cannot be used changes nothing, and is told once:
        of two files the first may be there a moment before the second."""
        try:
            stamp = self._stamped()
            if stamp == self._stamp:
                return
            self._current = self._loaded()
        except SettingError as error:
            if error.message != self._refused:
                self._refused = error.message
                log.warning("the new certificate is not taken up", reason=error.message)
            return
        self._stamp, self._refused = stamp, ""
        log.info("took up a new certificate", file=str(self._file))

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await asyncio.to_thread(self.refresh)

    def _take_current(
        self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext
    ) -> int | None:
        connection.context = self._current
        return None

    def _stamped(self) -> Stamp:
        """Changes with the files. Renewal tools write beside and rename, or change a link."""
        return _stamp(self._file, "certificate") + _stamp(self._key, "certificate_key")

    def _loaded(self) -> ssl.SSLContext:
        _check(self._file, self._key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load_into(context)
        return context

    def _load_into(self, context: ssl.SSLContext) -> None:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self._file, self._key)
        except (ssl.SSLError, OSError) as error:
            _refuse("certificate", self._file, f"OpenSSL does not take it: {error}")


def certificate_of(settings: Settings) -> Certificate | None:
    """What the settings say; None if listeners speak plain HTTP."""
    if settings.certificate:
        key = Path(settings.certificate_key) if settings.certificate_key else None
        return Certificate(Path(settings.certificate), key)
    if settings.certificate_key:
        raise SettingError(
            "certificate_key is set, and certificate is not",
            field="certificate",
            hint="name the file with the certificate that belongs to the key",
        )
    return None


@asynccontextmanager
async def watched(certificate: Certificate | None) -> AsyncIterator[None]:
    """While the block runs, a renewed certificate is taken up."""
    if certificate is None:
        yield
        return
    task = asyncio.create_task(certificate.watch())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _check(file: Path, key: Path) -> None:
    """What OpenSSL would not say, or not in these words."""
    chain = _chain(file)
    now = datetime.now(UTC)
    for certificate in chain:
        name = certificate.subject.rfc4514_string() or "the certificate"
        if now > certificate.not_valid_after_utc:
            _refuse("certificate", file, f"{name} expired on {certificate.not_valid_after_utc}")
        if now < certificate.not_valid_before_utc:
            at = certificate.not_valid_before_utc
            _refuse("certificate", file, f"{name} is not valid before {at}")
    if _public(_private_key(key).public_key()) != _public(chain[0].public_key()):
        reason = f"it is not the key of the certificate in {file}"
        if key == file:
            reason = "its key is not the key of its first certificate"
        _refuse("certificate_key", key, reason)


def _chain(file: Path) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(_read(file, "certificate"))
    except (ValueError, UnsupportedAlgorithm):
        _refuse("certificate", file, "it holds no certificate in PEM form")


def _private_key(file: Path) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(_read(file, "certificate_key"), password=None)
    except TypeError:
        _refuse("certificate_key", file, "the key is encrypted, and nobody is there to unlock it")
    except (ValueError, UnsupportedAlgorithm):
        _refuse("certificate_key", file, "it holds no private key in PEM form")


def _public(key: Any) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded


def _read(file: Path, setting: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        _refuse(setting, file, f"it cannot be read: {error.strerror}")


def _stamp(file: Path, setting: str) -> Stamp:
    try:
        status = file.stat()
    except OSError as error:
        _refuse(setting, file, f"it cannot be read: {error.strerror}")
    return ((status.st_mtime_ns, status.st_size, status.st_ino),)


def _refuse(setting: str, file: Path, reason: str) -> NoReturn:
    raise SettingError(f"setting {setting}: {file}: {reason}", field=setting)


class _Listening(ssl.SSLContext):
    """Answers plain HTTP in plain HTTP: to be cut off would tell its sender nothing."""

    sslobject_class: type[ssl.SSLObject]
    # aiofastnet, on which WebSockets travel, would call OpenSSL past this context: then no plain
    # answer is given, and no renewed certificate taken up.
    _aiofastnet_force_fallback_ssl = True

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *given: Any, **named: Any
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *given, **named)
        assert isinstance(made, _Connection)
        made.outgoing = outgoing
        return made


class _Connection(ssl.SSLObject):
    outgoing: ssl.MemoryBIO
    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
        except ssl.SSLError as error:
            if error.reason not in NOT_TLS:
                raise
            self._failure = error  # whatever else comes ends the connection
            self.outgoing.read()
            self.outgoing.write(_plain_answer())
            raise ssl.SSLWantReadError from None  # what is in `outgoing` leaves


_Listening.sslobject_class = _Connection


def _plain_answer() -> bytes:
    body = error_body(InvalidInput("this port speaks TLS", hint="call it by https:// or wss://"))
    head = (
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
