"""Certificates of listeners: what is wrong with one is told at the start, and renewals are seen."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tocsin.client.transport import tls
from tocsin.dev.certificates import Certificates, make_certificates
from tocsin.errors import SettingError
from tocsin.service.serving import listen, port_of, serving
from tocsin.service.tls import Certificate, certificate_of
from tocsin.settings import Settings


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "certificates")


def settings(made: Certificates) -> Settings:
    return Settings(certificate=str(made.certificate), certificate_key=str(made.certificate_key))


async def _hello(_: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


@asynccontextmanager
async def service(certificate: Certificate) -> AsyncIterator[int]:
    listener = listen("127.0.0.1", 0)
    app = Starlette(routes=[Route("/", _hello, methods=["GET", "DELETE"])])
    async with serving(app, listener, certificate.context):
        yield port_of(listener)


def peer(port: int, made: Certificates) -> x509.Certificate:
    pem = ssl.get_server_certificate(("127.0.0.1", port), ca_certs=str(made.authority))
    return x509.load_pem_x509_certificate(pem.encode())


def no_file(made: Certificates) -> None:
    made.certificate.unlink()


def no_key(made: Certificates) -> None:
    made.certificate_key.unlink()


def key_as_certificate(made: Certificates) -> None:
    made.certificate.write_bytes(made.certificate_key.read_bytes())


def certificate_as_key(made: Certificates) -> None:
    made.certificate_key.write_bytes(made.certificate.read_bytes())


def garbage(made: Certificates) -> None:
    made.certificate.write_bytes(b"-----BEGIN CERTIFICATE-----\nnonsense\n")


def another_key(made: Certificates) -> None:
    key = made.certificate_key.read_bytes()
    make_certificates(made.certificate.parent)
    made.certificate_key.write_bytes(key)


def expired(made: Certificates) -> None:
    begins = datetime.now(UTC) - timedelta(days=9)
    make_certificates(made.certificate.parent, valid=timedelta(days=3), begins=begins)


def not_yet(made: Certificates) -> None:
    begins = datetime.now(UTC) + timedelta(days=3)
    make_certificates(made.certificate.parent, begins=begins)


def encrypted(made: Certificates) -> None:
    key = load_pem_private_key(made.certificate_key.read_bytes(), password=None)
    made.certificate_key.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open"))
    )


@pytest.mark.parametrize(
    ("broken", "setting", "told"),
    [
        (no_file, "certificate", "No such file"),
        (no_key, "certificate_key", "No such file"),
        (key_as_certificate, "certificate", "no certificate in PEM form"),
        (certificate_as_key, "certificate_key", "no private key in PEM form"),
        (garbage, "certificate", "no certificate in PEM form"),
        (another_key, "certificate_key", "not the key of the certificate"),
        (expired, "certificate", "expired on"),
        (not_yet, "certificate", "not valid before"),
        (encrypted, "certificate_key", "encrypted"),
    ],
)
def test_a_file_that_cannot_serve_is_refused_with_its_setting_and_the_reason(
    made: Certificates, broken: object, setting: str, told: str
) -> None:
    assert callable(broken)
    broken(made)
    with pytest.raises(SettingError, match=told) as refused:
        certificate_of(settings(made))
    assert refused.value.field == setting
    assert str(getattr(made, setting)) in refused.value.message


def test_a_key_without_a_certificate_is_refused_and_none_of_both_means_plain_http(
    made: Certificates,
) -> None:
    with pytest.raises(SettingError, match="certificate is not"):
        certificate_of(Settings(certificate_key=str(made.certificate_key)))
    assert certificate_of(Settings()) is None


def test_certificate_and_key_may_be_in_one_file(made: Certificates, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(made.certificate.read_bytes() + made.certificate_key.read_bytes())
    assert certificate_of(Settings(certificate=str(both))) is not None


@pytest.mark.parametrize(
    ("content", "told"), [(None, "No such file"), (b"nonsense", "no certificate in PEM form")]
)
def test_an_authority_that_cannot_be_trusted_is_refused(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    file = tmp_path / "authority.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingError, match=told) as refused:
        tls(str(file))
    assert refused.value.field == "authority"


async def test_a_renewed_certificate_counts_for_new_connections_while_old_ones_go_on(
    made: Certificates,
) -> None:
    certificate = certificate_of(settings(made))
    assert certificate is not None
    async with service(certificate) as port:
        url = f"https://127.0.0.1:{port}/"
        async with httpx.AsyncClient(verify=tls(str(made.authority))) as old:
            assert (await old.get(url)).text == "hello"
            before = await asyncio.to_thread(peer, port, made)
            make_certificates(made.certificate.parent)
            assert await asyncio.to_thread(peer, port, made) == before  # nobody looked yet
            certificate.refresh()
            assert await asyncio.to_thread(peer, port, made) != before
            assert (await old.get(url)).text == "hello"


async def test_half_a_renewal_changes_nothing_and_the_other_half_completes_it(
    made: Certificates,
) -> None:
    certificate = certificate_of(settings(made))
    assert certificate is not None
    async with service(certificate) as port:
        before = await asyncio.to_thread(peer, port, made)
        key = made.certificate_key.read_bytes()
        make_certificates(made.certificate.parent)
        renewed_key = made.certificate_key.read_bytes()
        made.certificate_key.write_bytes(key)
        certificate.refresh()
        assert await asyncio.to_thread(peer, port, made) == before
        made.certificate_key.unlink()
        certificate.refresh()
        assert await asyncio.to_thread(peer, port, made) == before
        made.certificate_key.write_bytes(renewed_key)
        certificate.refresh()
        assert await asyncio.to_thread(peer, port, made) != before


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_plain_http_is_told_in_plain_http_that_the_port_speaks_tls(
    made: Certificates, method: str
) -> None:
    certificate = certificate_of(settings(made))
    assert certificate is not None
    async with service(certificate) as port, httpx.AsyncClient(timeout=5) as client:
        answer = await client.request(method, f"http://127.0.0.1:{port}/")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "this port speaks TLS"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_what_is_older_than_tls_1_2_is_not_spoken(made: Certificates) -> None:
    certificate = certificate_of(settings(made))
    assert certificate is not None
    old = ssl.create_default_context(cafile=str(made.authority))
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with service(certificate) as port:
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port, ssl=old)
        newer = ssl.create_default_context(cafile=str(made.authority))
        newer.maximum_version = ssl.TLSVersion.TLSv1_2
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=newer)
        writer.close()


async def test_an_authority_that_is_replaced_is_trusted_without_a_restart(
    made: Certificates, tmp_path: Path
) -> None:
    authority = tmp_path / "trusted.pem"
    other = make_certificates(tmp_path / "other")
    authority.write_bytes(other.authority.read_bytes())
    certificate = certificate_of(settings(made))
    assert certificate is not None
    async with service(certificate) as port:
        url = f"https://127.0.0.1:{port}/"
        async with httpx.AsyncClient(verify=tls(str(authority))) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(url)
            authority.write_bytes(made.authority.read_bytes())
            tls(str(authority))
            assert (await client.get(url)).text == "hello"
