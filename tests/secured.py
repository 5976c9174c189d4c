"""Servers as companies run them: encrypted, and only for those who sign in."""

from __future__ import annotations

import pwd
import secrets
import shutil
import subprocess
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tocsin.dev.database import NAME
from tocsin.dev.kafka import Kafka
from tocsin.dev.mariadb import MariaDB
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.server import Server
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.system.launching import Command
from tocsin.system.ports import HOST

USER = "ann"


class Certificate:
    """One that signed itself, so that who trusts it trusts nothing else."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "certificate.pem"
        self.key = folder / "key.pem"
        words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        words += ["-subj", "/CN=tocsin", "-addext", f"subjectAltName=IP:{HOST}"]
        words += ["-keyout", str(self.key), "-out", str(self.file)]
        subprocess.run(words, check=True, capture_output=True)


class Certified(Server):
    """A server with a certificate of its own."""

    @property
    def ca(self) -> Path:
        return self._certificate.file

    @cached_property
    def _certificate(self) -> Certificate:
        return Certificate(self.home.parent / f"tls-of-{self.name}")


class SecuredKafka(Certified, Kafka):
    """Answers over TLS to one user with a password."""

    name = "secured-kafka"

    @property
    def url(self) -> str:
        return f"kafka://{USER}:{self._password}@{self.address}/tocsin?ssl.ca.location={self.ca}"

    @cached_property
    def _password(self) -> str:
        return secrets.token_hex(16)

    def _answers(self) -> bool:
        options = KafkaAddress.parse(self.url).client(log_level=0)
        try:
            return bool(AdminClient(options).list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def _properties(self, data: Path, port: int, controller_port: int) -> str:
        both = self.ca.with_name("both.pem")
        both.write_text(self._certificate.key.read_text() + self._certificate.file.read_text())
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        login = f'username="{USER}" password="{self._password}" user_{USER}="{self._password}"'
        values = {  # Java takes the last of what is said twice
            "listeners": f"SIGNED://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": f"SIGNED://{HOST}:{port}",
            "listener.security.protocol.map": "SIGNED:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "SIGNED",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.signed.plain.sasl.jaas.config": f"{module} {login};",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": both,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._certificate.file,
        }
        plain = super()._properties(data, port, controller_port)
        return plain + "".join(f"{key}={value}\n" for key, value in values.items())


class SecuredMariaDB(Certified, MariaDB):
    """Its user is let in over TLS only."""

    name = "secured-mariadb"

    def _url(self, database: str) -> str:
        return f"{super()._url(database)}?ssl_ca={self.ca}"

    def _login(self, user: str = NAME) -> dict[str, Any]:
        return {**super()._login(user), "ssl_ca": str(self.ca)}

    def _start_process(self, name: str, command: Command) -> None:
        tls = [f"--ssl-cert={self._certificate.file}", f"--ssl-key={self._certificate.key}"]
        tls += ["--require-secure-transport=ON"]
        super()._start_process(name, Command([*command.words, *tls], command.log))


class SecuredPostgreSQL(Certified, PostgreSQL):
    name = "secured-postgresql"

    def _url(self, database: str) -> str:
        return f"{super()._url(database)}?sslmode=verify-full&sslrootcert={self.ca}"

    def _start_process(self, name: str, command: Command) -> None:
        for file in (self._certificate.file, self._certificate.key):
            shutil.copy(file, self.data)
            if command.user:
                shutil.chown(self.data / file.name, pwd.getpwnam(command.user).pw_uid)
        options = {"ssl": "on", "ssl_cert_file": "certificate.pem", "ssl_key_file": "key.pem"}
        words = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        secured = Command([*command.words, *words], command.log, user=command.user)
        super()._start_process(name, secured)
