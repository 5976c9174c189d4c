"""Kafka: one node that is broker and controller (KRaft)."""

from __future__ import annotations

import secrets
from pathlib import Path

from tocsin.dev.java_server import JavaServer
from tocsin.dev.kafka_jars import KAFKA
from tocsin.system.launching import Command, run
from tocsin.system.ports import HOST, free_port

LARGEST_MESSAGE_BYTES = 32 * 1024 * 1024


class Kafka(JavaServer):
    name = "kafka"
    title = "Kafka"
    jars = KAFKA
    memory = "512m"

    @property
    def address(self) -> str:
        """What a Kafka client calls bootstrap.servers."""
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return f"kafka://{self.address}"

    def _make_data(self, data: Path) -> None:
        file = self.home / "format.properties"
        file.write_text(self._properties(data, 1, 2))
        # Kafka's ids are written so; the first letter must not look like an option.
        cluster = "T" + secrets.token_urlsafe(16)[1:]
        words = ["format", "--cluster-id", cluster, "--config", str(file)]
        done = run(self._java("kafka.tools.StorageTool", *words))
        if done.returncode != 0:
            raise self._no_data(done.stderr)

    def _launch(self) -> None:
        file = self.home / "server.properties"
        file.write_text(self._properties(self.data, self.port, free_port()))
        self._start_process(self.name, Command(self._java("kafka.Kafka", str(file)), str(self.log)))
        self._until(self._answers)

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        quiet = {"log_level": 0, "socket.connection.setup.timeout.ms": 2000}
        try:
            known = AdminClient({"bootstrap.servers": self.address, **quiet}).list_topics(timeout=2)
        except KafkaException:
            return False
        return bool(known.brokers)

    def _properties(self, data: Path, port: int, controller_port: int) -> str:
        values = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": data,
            # A topic that nobody made is a mistake.
            "auto.create.topics.enable": "false",
            "message.max.bytes": LARGEST_MESSAGE_BYTES,
            # One node is all there is.
            "default.replication.factor": 1,
            "min.insync.replicas": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            # Small and quick: few internal partitions, no wait for more consumers.
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
            # After a kill the node may not come back before its old session is over.
            "broker.heartbeat.interval.ms": 500,
            "broker.session.timeout.ms": 3000,
        }
        return "".join(f"{key}={value}\n" for key, value in values.items())
