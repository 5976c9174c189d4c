"""A whole system of Tocsin's services on this machine: started, watched, restarted, stopped.

`tocsin up`, the demo and the tests that kill things all use this; the services themselves do not
know whether somebody watches them.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
import msgspec

from tocsin import cache_directory
from tocsin.client.addresses import serves
from tocsin.client.transport import HttpClient, distrust
from tocsin.errors import SettingError
from tocsin.service.exposure import inner_place
from tocsin.service.hosting import scheme
from tocsin.service.secret import ensure_secret, takes_secret
from tocsin.service.serving import listen, taken
from tocsin.service.tokens import mint
from tocsin.service.web import INSTANCE
from tocsin.settings import PREFIX, Settings
from tocsin.system.launching import Command
from tocsin.system.ports import free_port
from tocsin.system.startup import Startup
from tocsin.system.supervised import SUPERVISED, Supervised

PORTS = {
    "cluster": ("cluster_port",),
    "coordinator": ("coordinator_port",),
    "gateway": ("gateway_port",),
    "broker": ("broker_port", "broker_ws_port"),
    "writer": ("writer_port",),
}
"""Where each kind of service listens, by its settings; the first answers HTTP."""
LOOK_S = 0.1
ANSWER_LIMIT_S = 2.0
LEADER_LIMIT_S = 0.5


def _nobody(name: str, news: str) -> None:
    """Listens to what `System.start` tells."""


class ServiceEnvironment(msgspec.Struct, frozen=True):
    """What single services are given besides: other addresses to call, variables of their own."""

    settings: Callable[[str, Settings], Settings] = lambda name, settings: settings
    variables: Callable[[str], Mapping[str, str]] = lambda name: {}


SAME_FOR_ALL = ServiceEnvironment()


class System:
    """A cluster with its standbys, coordinators, gateways, writers and brokers. Use as an async
    context manager."""

    def __init__(
        self,
        settings: Settings,
        *,
        brokers: int = 1,
        fixed_ports: bool = False,
        environment: ServiceEnvironment = SAME_FOR_ALL,
    ) -> None:
        """`fixed_ports`: as the settings say; otherwise free ones are taken."""
        ports = _Ports(settings, fixed_ports)
        # Certificates are for names; people give a system the one by which it is called.
        host = (settings.certificate and settings.public_host) or settings.host
        http = scheme(settings)
        clusters = ports.named("cluster", 1 + settings.standbys)
        coordinators = ports.named("coordinator", settings.coordinators)
        self.cluster_urls = {name: f"{http}://{host}:{port}" for name, port in clusters.items()}
        self.coordinator_urls = {
            name: f"{http}://{host}:{port}" for name, port in coordinators.items()
        }
        gateways = ports.named("gateway", settings.gateways)
        writers = ports.named("writer", settings.writers)
        self.gateway_urls = {name: f"{http}://{host}:{port}" for name, port in gateways.items()}
        self.settings = ensure_secret(settings)
        shared = msgspec.structs.replace(
            self.settings,
            cluster_url=self.cluster_url,
            coordinator_url=self.coordinator_url,
            gateway_url=self.gateway_url or settings.gateway_url,
            standby=settings.standby or settings.standbys > 0,
        )
        self._environment = environment
        self.broker_urls: dict[str, str] = {}
        self.inner_urls: dict[str, str] = {}  # where each tells its metrics and its status
        self._services: dict[str, _Service] = {}
        for name, port in clusters.items():
            own = msgspec.structs.replace(shared, cluster_port=port)
            self._add(name, "cluster", own, self.cluster_urls[name])
        for name, port in coordinators.items():
            own = msgspec.structs.replace(shared, coordinator_port=port)
            self._add(name, "coordinator", own, self.coordinator_urls[name])
        for number, (name, port) in enumerate(gateways.items(), 1):
            own = msgspec.structs.replace(
                shared, gateway_port=port, gateway_name=f"gateway_{number}"
            )
            self._add(name, "gateway", own, self.gateway_urls[name])
        for number, (name, port) in enumerate(writers.items(), 1):
            own = msgspec.structs.replace(shared, writer_port=port, writer_name=f"writer_{number}")
            self._add(name, "writer", own, f"{http}://{host}:{port}")
        for number in range(1, brokers + 1):
            name = f"broker_{number}"
            own = msgspec.structs.replace(
                shared,
                broker_name=name,
                broker_port=ports.next("broker"),
                broker_ws_port=ports.next("broker_ws"),
                page_cache=shared.page_cache or str(shared.data / "pages"),
            )
            self.broker_urls[name] = f"{http}://{host}:{own.broker_port}"
            self._add(name, "broker", own, self.broker_urls[name])

    def _add(self, name: str, kind: str, settings: Settings, url: str) -> None:
        """Each has an inner address of its own, if it has one: ports go up from the one given."""
        status_url = url
        if settings.inner_address:
            host, first = inner_place(settings)
            port = first + len(self._services) if first else free_port(host)
            place = f"[{host}]" if ":" in host else host
            settings = msgspec.structs.replace(settings, inner_address=f"{place}:{port}")
            called = httpx.URL(url).host if host in ("0.0.0.0", "::") else place
            status_url = f"{scheme(settings)}://{called}:{port}"
        self.inner_urls[name] = status_url
        own = self._environment.settings(name, settings)
        variables = self._environment.variables(name)
        self._services[name] = _Service(name, kind, own, url, status_url, variables)

    @property
    def cluster_url(self) -> str:
        """Of all clusters, of which one leads."""
        return ",".join(self.cluster_urls.values())

    @property
    def coordinator_url(self) -> str:
        """Of all coordinators."""
        return ",".join(self.coordinator_urls.values())

    @property
    def gateway_url(self) -> str:
        """Of all gateways; empty: there are none."""
        return ",".join(self.gateway_urls.values())

    async def leader(self) -> str | None:
        """The cluster that leads, by name; None: no one does now, or says so."""
        async with HttpClient(timeout=LEADER_LIMIT_S, authority=self.settings.authority) as http:
            names = list(self.cluster_urls)
            leading = await asyncio.gather(*(serves(http, self.cluster_urls[n]) for n in names))
        return next((name for name, leads in zip(names, leading, strict=True) if leads), None)

    def token(self, subject: str, *scopes: str, expires_s: float = 30 * 24 * 3600.0) -> str:
        return mint(self.settings.secret, subject, scopes, expires_s=expires_s, now=time.time())

    @property
    def names(self) -> list[str]:
        return list(self._services)

    def restarts(self, name: str) -> int:
        return self._services[name].restarts

    def exit_codes(self, name: str) -> list[int]:
        """With which a service ended, each time that it did."""
        return self._services[name].exit_codes

    def pid(self, name: str) -> int:
        """Of a service's process as it runs now."""
        return self._services[name].process.pid

    async def __aenter__(self) -> System:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(
        self,
        on_ready: Callable[[str, str], None] = _nobody,
        on_wait: Callable[[str, str], None] = _nobody,
    ) -> None:
        """Start everything and wait until all answer; `on_ready` hears of each that does, `on_wait`
        of one that cannot yet because something outside is not there."""
        for service in self._services.values():  # before anybody is started for nothing
            service.check_ports()
        for service in self._services.values():
            service.start()
        for service in self._services.values():
            await service.until_ready(on_wait)
            on_ready(service.name, service.url)

    async def stop(self) -> None:
        """Ask all to stop, brokers first; what does not listen is killed."""
        for service in reversed(self._services.values()):
            await service.stop()

    async def kill(self, name: str) -> None:
        """kill -9. It is started again, as an operator's supervisor would do."""
        await self._services[name].kill()

    async def ready(self, name: str) -> None:
        """Wait until a service answers (again)."""
        await self._services[name].until_ready()


class _Service(Supervised):
    """One service of Tocsin."""

    def __init__(
        self,
        name: str,
        kind: str,
        settings: Settings,
        url: str,
        status_url: str,
        variables: Mapping[str, str],
    ) -> None:
        self.kind = kind
        self._status_url = status_url
        self.settings = settings
        self.url = url
        self._variables = dict(variables)
        self._instance = ""  # the process that was started last, as it calls itself
        super().__init__(name, settings.data / "logs" / f"{name}.log")

    def check_ports(self) -> None:
        for setting in PORTS[self.kind]:
            listen(self.settings.host, getattr(self.settings, setting), setting).close()

    def command(self) -> Command:
        self._instance = secrets.token_hex(16)
        return Command(
            [sys.executable, "-m", "tocsin", self.kind],
            str(self.log.file),
            _environment(self.settings)
            | self._variables
            | {SUPERVISED: "1", INSTANCE: self._instance},
            hidden=PREFIX,
            folder=str(Path.cwd()),
        )

    async def until_ready(self, on_wait: Callable[[str, str], None] = _nobody) -> None:
        startup, waited_for = Startup(self.name, self.log), ""
        authority = self.settings.authority
        async with HttpClient(timeout=ANSWER_LIMIT_S, authority=authority) as client:
            while True:
                if self.refusal:
                    raise SettingError(f"the {self.kind} cannot start: {self.refusal}")
                try:
                    state = await self._state(client)
                except httpx.HTTPError as error:
                    if reason := distrust(error):
                        message = f"the {self.kind} at {self.url}: {reason}"
                        raise SettingError(message, field="authority") from None
                else:
                    if state.ready or (state.role == "standby" and not state.waits_for):
                        self.was_ready = True
                        return
                    if state.waits_for:
                        startup.postpone()
                        if state.waits_for != waited_for:
                            on_wait(self.name, state.waits_for)
                        waited_for = state.waits_for
                startup.check(alive=True)  # one that ends is started again
                await asyncio.sleep(LOOK_S)

    async def _state(self, client: httpx.AsyncClient) -> _State:
        self._check_who_answers(await client.get(f"{self.url}/healthz"))
        open_or_ours = self.settings.inner_scope == "none" or takes_secret(self.settings)
        if self.kind == "cluster" and open_or_ours:
            answer = await client.get(f"{self._status_url}/v1/status", headers=self._headers())
        else:
            answer = await client.get(f"{self.url}/healthz")
        if answer.status_code != 200:
            return _State(ready=False)
        return msgspec.json.decode(answer.content, type=_State)

    def _headers(self) -> dict[str, str]:
        """What the status may ask for."""
        settings = self.settings
        if settings.inner_scope == "none":
            return {}
        scopes, now = [settings.inner_scope], time.time()
        token = mint(settings.secret, "system", scopes, expires_s=60, now=now)
        return {"authorization": f"Bearer {token}"}

    def _check_who_answers(self, health: httpx.Response) -> None:
        """Another Tocsin on the port would answer as well as ours, and know none of our tokens."""
        try:
            instance = msgspec.json.decode(health.content, type=_Health).instance
        except msgspec.MsgspecError:
            by = "another program"
        else:
            if instance == self._instance:
                return
            by = "another Tocsin"
        setting = PORTS[self.kind][0]
        raise taken(getattr(self.settings, setting), setting, by)


class _Health(msgspec.Struct):
    instance: str | None


class _State(msgspec.Struct):
    """What a service says of itself."""

    ready: bool = True
    role: str | None = None
    waits_for: str | None = None


class _Ports:
    """Ports for the services: those of the settings, or free ones."""

    def __init__(self, settings: Settings, fixed: bool) -> None:
        self._settings = settings
        self._fixed = fixed
        self._given: set[int] = set()

    def named(self, kind: str, count: int) -> dict[str, int]:
        """For so many services of a kind: the first has its name."""
        names = [kind, *(f"{kind}_{number}" for number in range(2, count + 1))][:count]
        return {name: self.next(kind) for name in names}

    def next(self, kind: str) -> int:
        port = int(getattr(self._settings, f"{kind}_port")) if self._fixed else 0
        while port in self._given:
            port += 2  # a second broker takes the next pair
        while port == 0 or port in self._given:
            port = free_port(self._settings.host)
        self._given.add(port)
        return port


def _environment(settings: Settings) -> dict[str, str]:
    defaults = Settings()
    given = {
        PREFIX + name.upper(): str(value)
        for name, value in msgspec.structs.asdict(settings).items()
        if value != getattr(defaults, name)
    }
    cache = os.environ.get(cache_directory.VARIABLE)  # the machine's, and no setting
    return given if cache is None else given | {cache_directory.VARIABLE: cache}
