"""One address for librdkafka and for Java; what is secret in it is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.errors import SettingError
from tocsin.storage.log import open_log, open_reader
from tocsin.storage.log.kafka import KafkaAddress

SIGNED_IN = "kafka://ann:s%40f%2Fe@one:9092,two:9093/plant"


def parse(text: str) -> KafkaAddress:
    return KafkaAddress.parse(text)


def test_servers_and_prefix() -> None:
    plain = parse("kafka://127.0.0.1:9092")
    assert (plain.servers, plain.prefix, plain.options) == ("127.0.0.1:9092", "tocsin", {})
    assert plain.topic("reports") == "tocsin.dataset.reports"
    many = parse("kafka://one:1,[::1]:65535/my.plant-1/?client.id=me")
    assert (many.servers, many.prefix) == ("one:1,[::1]:65535", "my.plant-1")
    assert many.client()["client.id"] == "me"
    assert many.client()["bootstrap.servers"] == "one:1,[::1]:65535"


@pytest.mark.parametrize(
    "text",
    [
        "kafka://",
        "kafka:///prefix",
        "kafka://host",
        "kafka://host:",
        "kafka://host:port",
        "kafka://host:0",
        "kafka://host:65536",
        "kafka://one:1,two",
        "kafka://one:1,,two:2",
        "kafka://host:1/a/b",
        "kafka://host:1/a b",
        "kafka://host:1/x#topic",
        "redis://host:1",
    ],
)
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SettingError) as refused:
        KafkaAddress.parse(text, "kafka")
    assert refused.value.field == "kafka"
    assert refused.value.hint


def test_a_log_somewhere_else_is_not_taken_for_a_directory() -> None:
    for text in ("redis://host:1", "file:///log"):
        with pytest.raises(SettingError):
            open_log(text, segment_bytes=100)
        with pytest.raises(SettingError):
            open_reader(text)


def test_who_signs_in_does_so_over_tls_unless_told_otherwise() -> None:
    address = parse(SIGNED_IN)
    assert address.options == {
        "sasl.username": "ann",
        "sasl.password": "s@f/e",
        "sasl.mechanism": "PLAIN",
        "security.protocol": "SASL_SSL",
    }
    other = parse(SIGNED_IN + "?security.protocol=SASL_PLAINTEXT&sasl.mechanisms=SCRAM-SHA-512")
    assert other.options["security.protocol"] == "SASL_PLAINTEXT"
    assert other.options["sasl.mechanism"] == "SCRAM-SHA-512"
    assert "sasl.mechanisms" not in other.options
    in_options = parse("kafka://h:1?sasl.username=ann&sasl.password=x")
    assert in_options.options["security.protocol"] == "SASL_SSL"


def test_java_is_told_the_same() -> None:
    told = parse(SIGNED_IN + "?ssl.ca.location=/ca.pem&queue.buffering.max.kbytes=9").java()
    assert told == {
        "bootstrap.servers": "one:9092,two:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="ann" password="s@f/e";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
    }
    scram = parse("kafka://a:b@h:1?sasl.mechanism=scram-sha-256").java()
    assert scram["sasl.mechanism"] == "SCRAM-SHA-256"
    assert "scram.ScramLoginModule" in scram["sasl.jaas.config"]
    odd = parse("kafka://a:%22%5C@h:1").java()
    assert odd["sasl.jaas.config"].endswith(r'password="\"\\";')
    assert parse("kafka://h:1").java() == {"bootstrap.servers": "h:1"}


def test_java_is_told_a_clients_certificate(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("CERT")
    (tmp_path / "key.pem").write_text("KEY")
    options = f"ssl.certificate.location={tmp_path}/cert.pem&ssl.key.location={tmp_path}/key.pem"
    told = parse(f"kafka://h:1?security.protocol=SSL&ssl.key.password=pw&{options}").java()
    assert told["security.protocol"] == "SSL"
    assert told["ssl.keystore.type"] == "PEM"
    assert told["ssl.keystore.certificate.chain"] == "CERT"
    assert told["ssl.keystore.key"] == "KEY"
    assert told["ssl.key.password"] == "pw"
    store = parse("kafka://h:1?ssl.keystore.location=/k.p12&ssl.keystore.password=pw").java()
    assert store["ssl.keystore.type"] == "PKCS12"
    assert store["ssl.keystore.location"] == "/k.p12"
    assert store["ssl.keystore.password"] == "pw"


@pytest.mark.parametrize(
    "options",
    [
        "sasl.username=a&sasl.password=hush&sasl.mechanism=GSSAPI",
        "enable.ssl.certificate.verification=false&ssl.key.password=hush",
        "sasl.oauthbearer.client.secret=hush",
        "ssl.certificate.location=/nowhere&ssl.key.location=/nowhere&ssl.key.password=hush",
        "ssl.certificate.location=/dev/null&ssl.key.password=hush",
    ],
)
def test_what_java_cannot_be_told_is_refused(options: str) -> None:
    with pytest.raises(SettingError) as refused:
        parse(f"kafka://h:1?{options}").java()
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "kafka://ann:hush@h:1",
        "kafka://ann:hush@hush@h:1",
        "kafka://ann:%68hush@h:1/p?sasl.password=hush&x=y",
        "kafka://h:1?sasl.username=ann&sasl.password=hush",
        "kafka://h:1?ssl.key.password=hush&ssl.keystore.password=hush",
        "kafka://h:1?sasl.oauthbearer.client.secret=hush&ssl.key.pem=hush",
        "kafka://ann:hush/hush@h:1",  # a password that should have been quoted
        "kafka://ann:hush?hush@h:1",
        "kafka://ann:hush#hush@h:1",
        "kafka://ann:hush@h",
        "kafka://ann:hush@h:1/a b",
    ],
)
def test_a_password_is_never_shown(text: str) -> None:
    told = []
    try:
        address = parse(text)
        told = [address.shown, repr(address), f"{address}"]
        assert address.shown.startswith("kafka://")
    except SettingError as refused:
        told = [str(refused)]
    assert all("hush" not in one for one in told)
