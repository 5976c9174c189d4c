"""A local authority, and certificates that it signs: TLS on one machine, for developers and tests.

Nobody but who is told to trusts it. Keys are kept in the directory, readable by their owner alone;
whoever may read the authority's key can pretend to be any server to those who trust it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from tocsin import durable
from tocsin.errors import InvalidInput, SettingError

VALID_DAYS = 397  # clients such as browsers refuse certificates that live longer
AUTHORITY_DAYS = 3650
NAMES = ("localhost", "127.0.0.1", "::1")
SKEW = timedelta(minutes=5)  # another machine's clock may be behind


class Certificates(Struct, frozen=True):
    """The files of a directory: what settings of the same names take."""

    authority: Path
    certificate: Path
    certificate_key: Path

    def settings(self) -> dict[str, Any]:
        return {name: str(getattr(self, name)) for name in self.__struct_fields__}


def make_certificates(
    directory: Path,
    names: Iterable[str] = (),
    *,
    valid: timedelta = timedelta(days=VALID_DAYS),
    begins: datetime | None = None,
) -> Certificates:
    """A certificate for this machine and the names given, signed by the directory's authority,
    which is made if there is none. Called again, it renews the certificate alone."""
    alternatives = _alternatives([*NAMES, socket.gethostname(), *names])
    made = Certificates(
        *(directory / f"{name}.pem" for name in ("authority", "certificate", "certificate_key"))
    )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        signer, signer_key = _authority(made.authority, directory / "authority_key.pem")
        key = ec.generate_private_key(ec.SECP256R1())
        start = begins or datetime.now(UTC) - SKEW
        certificate = (
            _begun("Tocsin on this machine", key, start, start + valid + SKEW)
            .issuer_name(signer.subject)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()),
                critical=False,
            )
            .sign(signer_key, hashes.SHA256())
        )
        durable.write(made.certificate_key, _key_bytes(key), mode=durable.OWNER)
        durable.write(made.certificate, certificate.public_bytes(Encoding.PEM))
    except OSError as error:
        raise SettingError(
            f"cannot keep certificates in {directory}: {error.strerror}", field="out"
        ) from None
    return made


def usable(directory: Path) -> Certificates | None:
    """What a directory has from before, if it is good for another day at least."""
    made = Certificates(
        *(directory / f"{name}.pem" for name in ("authority", "certificate", "certificate_key"))
    )
    try:
        certificate = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    except (OSError, ValueError):
        return None
    good = certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=1)
    return made if good and made.authority.exists() and made.certificate_key.exists() else None


def _authority(file: Path, key_file: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    if file.exists() and key_file.exists():
        return _known_authority(file, key_file)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC) - SKEW
    title = f"Tocsin's authority on {socket.gethostname()}"[:64]
    usage = x509.KeyUsage(
        **dict.fromkeys(
            (
                *("digital_signature", "content_commitment", "key_encipherment"),
                *("data_encipherment", "key_agreement", "encipher_only", "decipher_only"),
            ),
            False,
        ),
        key_cert_sign=True,
        crl_sign=True,
    )
    begun = _begun(title, key, now, now + timedelta(days=AUTHORITY_DAYS))
    certificate = (
        begun.issuer_name(_name(title))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    durable.write(key_file, _key_bytes(key), mode=durable.OWNER)
    durable.write(file, certificate.public_bytes(Encoding.PEM))
    return certificate, key


def _known_authority(
    file: Path, key_file: Path
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        key = load_pem_private_key(key_file.read_bytes(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise SettingError(
            f"{file} and {key_file} are no authority of tocsin dev certificates",
            field="out",
            hint="name another directory, or delete both",
        )
    return certificate, key


def _begun(
    title: str, key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(title))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(title: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])


def _alternatives(names: Iterable[str]) -> list[x509.GeneralName]:
    alternatives: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            alternatives.append(x509.IPAddress(ip_address(name)))
        except ValueError:
            try:
                alternatives.append(x509.DNSName(name))
            except ValueError:
                raise InvalidInput(
                    f"{name!r} is no host name",
                    field="names",
                    hint="such as edge.example.org, or an IP address",
                ) from None
    return alternatives


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
