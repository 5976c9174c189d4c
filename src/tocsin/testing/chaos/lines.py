"""Lines between the processes of a chaos run, each of which can be broken alone. What leads to a
broker is what it announces: notices go by one of them, clients and neighbours by another."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

import msgspec
from sqlalchemy import make_url

from tocsin.settings import Settings
from tocsin.testing.chaos.proxy import Proxy


def to_store(cluster: str) -> str:
    """What a cluster's line to the store is called."""
    return f"{cluster} → store"


class Lines:
    """Proxies by name. They are bound while a system is being made, and pass on once started."""

    def __init__(self) -> None:
        self.proxies: dict[str, Proxy] = {}

    def through(self, service: str, own: Settings) -> Settings:
        """The settings of a service, whose calls go by way of lines of its own."""
        if service.startswith("broker"):
            secure = "s" if own.certificate else ""
            rest = f"http{secure}://{own.host}:{own.broker_port}"
            sockets = f"ws{secure}://{own.host}:{own.broker_ws_port}"
            return msgspec.structs.replace(
                own,
                cluster_url=self._to_all(service, "cluster", own.cluster_url),
                coordinator_url=self._to_all(service, "coordinator", own.coordinator_url),
                public_url=self._to_service(f"cluster → {service}", rest),
                public_ws_url=self._to_service(f"clients, brokers → {service}", sockets),
            )
        if service.startswith("gateway"):
            urls = self._to_all(service, "cluster", own.cluster_url)
            return msgspec.structs.replace(own, cluster_url=urls)
        if service.startswith("writer"):
            own = msgspec.structs.replace(
                own, cluster_url=self._to_all(service, "cluster", own.cluster_url)
            )
        if service.startswith(("cluster", "writer")) and own.store:
            name = to_store(service)
            return msgspec.structs.replace(own, store=self._to_store(name, own.store))
        return own

    async def start(self) -> None:
        for proxy in self.proxies.values():
            await proxy.start()

    async def close(self) -> None:
        for proxy in self.proxies.values():
            await proxy.close()

    def _to_all(self, service: str, kind: str, urls: str) -> str:
        """To each of those that stand in for each other, a line of its own."""
        lines = []
        for number, url in enumerate(urls.split(","), start=1):
            name = f"{service} → {kind}" + (f"_{number}" if number > 1 else "")
            lines.append(self._to_service(name, url))
        return ",".join(lines)

    def _to_service(self, name: str, url: str) -> str:
        parts = urlsplit(url)
        assert parts.port is not None
        place = f"{parts.hostname}:{self._proxy(name, parts.port).port}"
        return urlunsplit(parts._replace(netloc=place))

    def _to_store(self, name: str, address: str) -> str:
        url = make_url(address)
        if url.port is None:
            return address
        port = self._proxy(name, url.port).port
        return url.set(port=port).render_as_string(hide_password=False)

    def _proxy(self, name: str, port: int) -> Proxy:
        self.proxies[name] = Proxy(port)
        return self.proxies[name]
