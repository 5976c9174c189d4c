"""Where a Kafka cluster is and how to speak to it: one address for librdkafka and for Java.

    kafka://[user:password@]host:port[,host:port …][/prefix][?option=value&…]

Options are librdkafka's own (`security.protocol`, `ssl.ca.location`, `sasl.mechanism`, …). Spark's
connector is Java: `java` says the same in its words.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.settings import without_secrets

SCHEME = "kafka"
FIELD = "log"
PREFIX = "tocsin"
_EXAMPLE = "give an address such as kafka://127.0.0.1:9092/tocsin"
_PREFIX = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_AS_IN_JAVA = {"security.protocol", "sasl.mechanism", "ssl.endpoint.identification.algorithm"}


def is_kafka(address: str) -> bool:
    return address.startswith(f"{SCHEME}://")


class KafkaAddress(Struct, frozen=True):
    text: str
    servers: str
    prefix: str
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str, field: str = FIELD) -> KafkaAddress:
        found = urlsplit(text)
        user, at, servers = found.netloc.rpartition("@")
        if found.scheme != SCHEME or not servers:
            raise SettingError(
                f"{without_secrets(text)!r} is not the address of a Kafka cluster",
                field=field,
                hint=_EXAMPLE,
            )
        for server in servers.split(","):
            if not re.fullmatch(r"[^:\s]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}", server):
                raise SettingError(
                    f"{server!r} in {without_secrets(text)!r} is not host:port",
                    field=field,
                    hint=_EXAMPLE,
                )
        prefix = found.path.strip("/") or PREFIX
        if not _PREFIX.fullmatch(prefix):
            raise SettingError(
                f"{prefix!r} cannot begin the names of topics",
                field=field,
                hint="use letters, digits, '.', '_' and '-'",
            )
        options = dict(parse_qsl(found.query, keep_blank_values=True))
        if at:
            name, _, password = user.partition(":")
            options.setdefault("sasl.username", unquote(name))
            options.setdefault("sasl.password", unquote(password))
            options.setdefault("sasl.mechanism", "PLAIN")
            options.setdefault("security.protocol", "SASL_SSL")
        return cls(text, servers, prefix, options)

    @property
    def shown(self) -> str:
        """The address as people may read it: without what is secret."""
        return without_secrets(self.text)

    def topic(self, dataset: str) -> str:
        return f"{self.prefix}.dataset.{dataset}"

    @property
    def matches_topic(self) -> str:
        return f"{self.prefix}.matches"

    def client(self, **more: Any) -> dict[str, Any]:
        """A configuration for librdkafka."""
        return {"bootstrap.servers": self.servers, "log_level": 2} | self.options | more

    def java(self) -> dict[str, str]:
        """The same for a Java client, as Spark passes it on."""
        given = self.options
        told = {key: value for key, value in given.items() if key in _AS_IN_JAVA}
        if "ssl.ca.location" in given:
            told["ssl.truststore.type"] = "PEM"
            told["ssl.truststore.location"] = given["ssl.ca.location"]
        if "ssl.keystore.location" in given:
            told["ssl.keystore.location"] = given["ssl.keystore.location"]
            told["ssl.keystore.type"] = "PKCS12"
            told["ssl.keystore.password"] = given.get("ssl.keystore.password", "")
        if given.get("enable.ssl.certificate.verification") == "false":
            told["ssl.endpoint.identification.algorithm"] = ""
        if "sasl.username" in given:
            module = _MODULES.get(given.get("sasl.mechanism", "PLAIN").upper())
            if module is None:
                raise SettingError(
                    f"Spark cannot be told how to sign in by {given['sasl.mechanism']}",
                    field=FIELD,
                    hint=f"use one of {', '.join(_MODULES)}",
                )
            name, password = (
                given.get(each, "").replace("\\", "\\\\").replace('"', '\\"')
                for each in ("sasl.username", "sasl.password")
            )
            told["sasl.jaas.config"] = f'{module} required username="{name}" password="{password}";'
        return {"bootstrap.servers": self.servers} | told
