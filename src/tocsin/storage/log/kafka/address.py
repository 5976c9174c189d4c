"""Where a Kafka cluster is and how to speak to it: one address for librdkafka and for Java.

    kafka://[user:password@]host:port[,host:port …][/prefix][?option=value&…]

Options are librdkafka's own (`security.protocol`, `ssl.ca.location`, `sasl.mechanism`, …). Spark's
connector is Java: `java` says the same in its words.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.settings import without_secrets

SCHEME = "kafka"
FIELD = "log"
PREFIX = "tocsin"
RECORD_LIMIT_BYTES = 1024 * 1024  # of topics that nobody gave another limit
_EXAMPLE = "give an address such as kafka://127.0.0.1:9092/tocsin"
_PREFIX = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_SERVER = re.compile(r"(?:[^\[\]:\s]+|\[[0-9a-fA-F:]+\]):(\d{1,5})")
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SAME_IN_JAVA = {"security.protocol", "ssl.endpoint.identification.algorithm", "ssl.key.password"}
_TRANSLATED = {
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.keystore.password",
}
_CALM = {
    "client.id": "tocsin",
    "log_level": 0,  # what matters is in errors of ours; by itself librdkafka writes to stderr
    "reconnect.backoff.max.ms": 1000,
}


def is_kafka(address: str) -> bool:
    return address.startswith(f"{SCHEME}://")


class KafkaAddress(Struct, frozen=True):
    text: str
    servers: str
    prefix: str
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str, field: str = FIELD) -> KafkaAddress:
        parts = urlsplit(text)
        user, at, servers = parts.netloc.rpartition("@")
        if parts.scheme != SCHEME or not servers or parts.fragment:
            raise _wrong(text, field)
        for server in servers.split(","):
            port = _SERVER.fullmatch(server)
            if port is None or not 0 < int(port[1]) < 65536:
                raise _wrong(text, field, "each server is host:port")
        prefix = parts.path.strip("/") or PREFIX
        if not _PREFIX.fullmatch(prefix):
            raise SettingError(
                f"{prefix!r} cannot begin the names of topics",
                field=field,
                hint="use letters, digits, '.', '_' and '-'",
            )
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if at:
            name, _, password = user.partition(":")
            options.setdefault("sasl.username", unquote(name))
            options.setdefault("sasl.password", unquote(password))
        if "sasl.mechanisms" in options:  # librdkafka's second name for it
            options.setdefault("sasl.mechanism", options.pop("sasl.mechanisms"))
        if "sasl.username" in options:
            options.setdefault("sasl.mechanism", "PLAIN")
            options.setdefault("security.protocol", "SASL_SSL")
        return cls(text, servers, prefix, options)

    @property
    def shown(self) -> str:
        """The address as people may read it: without what is secret."""
        return without_secrets(self.text)

    def __repr__(self) -> str:
        return f"KafkaAddress({self.shown!r})"

    def topic(self, dataset: str) -> str:
        return f"{self.prefix}.dataset.{dataset}"

    @property
    def owner_topic(self) -> str:
        return f"{self.prefix}.owner"

    @property
    def bases_topic(self) -> str:
        """Where the positions of datasets begin that were not begun here."""
        return f"{self.prefix}.bases"

    @property
    def matches_topic(self) -> str:
        return f"{self.prefix}.matches"

    @property
    def deliveries_topic(self) -> str:
        """How far each delivery has come."""
        return f"{self.prefix}.deliveries"

    @property
    def missing_topic(self) -> str:
        """What consumers ask for."""
        return f"{self.prefix}.missing"

    @property
    def consumer_topics(self) -> str:
        """How the names of all consumer logs begin."""
        return f"{self.prefix}.consumer."

    def consumer_topic(self, subscription: int) -> str:
        return f"{self.consumer_topics}{subscription}"

    def shared_topic(self, channel: str) -> str:
        return f"{self.prefix}.shared.{channel}"

    def client(self, **more: Any) -> dict[str, Any]:
        """A configuration for librdkafka."""
        return {"bootstrap.servers": self.servers} | _CALM | self.options | more

    def java(self) -> dict[str, str]:
        """The same for a Java client, as Spark passes it on."""
        given = self.options
        self._refuse_untranslatable()
        config = {key: value for key, value in given.items() if key in _SAME_IN_JAVA}
        if "ssl.ca.location" in given:
            config["ssl.truststore.type"] = "PEM"
            config["ssl.truststore.location"] = given["ssl.ca.location"]
        if "ssl.certificate.location" in given:
            config["ssl.keystore.type"] = "PEM"
            config["ssl.keystore.certificate.chain"] = _pem(given, "ssl.certificate.location")
            config["ssl.keystore.key"] = _pem(given, "ssl.key.location")
        if "ssl.keystore.location" in given:
            config["ssl.keystore.type"] = "PKCS12"
            config["ssl.keystore.location"] = given["ssl.keystore.location"]
            config["ssl.keystore.password"] = given.get("ssl.keystore.password", "")
        if "sasl.username" in given:
            config["sasl.mechanism"] = given["sasl.mechanism"].upper()
            module = _MODULES.get(config["sasl.mechanism"])
            if module is None:
                raise SettingError(
                    f"Spark cannot be told how to sign in by {given['sasl.mechanism']}",
                    field=FIELD,
                    hint=f"use one of {', '.join(_MODULES)}",
                )
            name, password = (
                given.get(key, "").replace("\\", "\\\\").replace('"', '\\"')
                for key in ("sasl.username", "sasl.password")
            )
            login = f'username="{name}" password="{password}"'
            config["sasl.jaas.config"] = f"{module} required {login};"
        return {"bootstrap.servers": self.servers} | config

    def _refuse_untranslatable(self) -> None:
        """Options of trust must reach both clients, or the address is refused."""
        if self.options.get("enable.ssl.certificate.verification", "true").lower() != "true":
            raise SettingError(
                "Spark's Kafka client verifies certificates always",
                field=FIELD,
                hint="give the authority that signed them: ssl.ca.location=FILE",
            )
        for key in self.options:
            if key.startswith(("ssl.", "sasl.")) and key not in _SAME_IN_JAVA | _TRANSLATED:
                raise SettingError(
                    f"Spark's Kafka client cannot be told {key}",
                    field=FIELD,
                    hint=f"it can be told {', '.join(sorted(_SAME_IN_JAVA | _TRANSLATED))}",
                )


def _pem(options: dict[str, str], key: str) -> str:
    try:
        return Path(options[key]).read_text()
    except KeyError:
        raise SettingError(
            f"a client's certificate needs {key} as well", field=FIELD, hint=_EXAMPLE
        ) from None
    except OSError as error:
        raise SettingError(
            f"cannot read {options[key]}: {error.strerror}", field=FIELD, hint=f"{key}=FILE"
        ) from None


def _wrong(text: str, field: str, why: str = "") -> SettingError:
    return SettingError(
        f"{without_secrets(text)!r} is not the address of a Kafka cluster{why and ': '}{why}",
        field=field,
        hint=_EXAMPLE,
    )
