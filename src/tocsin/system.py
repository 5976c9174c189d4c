"""A whole system of service processes on this machine: started, watched, restarted, stopped.

`tocsin up`, the demo and the tests that kill things all use this; the services themselves do not
know whether somebody watches them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx
import msgspec
import structlog

from tocsin.errors import SettingError, Unavailable
from tocsin.service.backoff import NO_ANSWER
from tocsin.service.serving import listen, taken
from tocsin.service.tokens import check_secret, mint
from tocsin.service.web import INSTANCE
from tocsin.settings import PREFIX, Settings

log = structlog.get_logger()

MISCONFIGURED = 2
"""A service's exit code when its settings are wrong: starting it again would not help."""
SUPERVISED = "STOP_WHEN_INPUT_ENDS"
"""Set in a service's environment: it stops when its standard input ends, as its starter does."""
PORTS = {
    "cluster": ("cluster_port",),
    "coordinator": ("coordinator_port",),
    "broker": ("broker_port", "broker_ws_port"),
}
"""Where each kind of service listens, by its settings; the first answers HTTP."""
START_LIMIT_S = 120.0
STOP_LIMIT_S = 20.0
LONGEST_RESTART_WAIT_S = 5.0


def ensure_secret(settings: Settings) -> Settings:
    """Settings with a secret: the one given, else the one in the data directory, else a new one."""
    if settings.secret:
        check_secret(settings.secret)
        return settings
    file = settings.data / "secret"
    if not file.exists():
        settings.data.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as writing:
                writing.write(secrets.token_hex(32))
    return msgspec.structs.replace(settings, secret=file.read_text().strip())


def find_secret(settings: Settings) -> Settings:
    """Like `ensure_secret`, but a missing secret is an error: nobody would share a new one."""
    if settings.secret or (settings.data / "secret").exists():
        return ensure_secret(settings)
    raise SettingError(
        f"no secret: TOCSIN_SECRET is not set and {settings.data}/secret does not exist",
        field="secret",
        hint="set TOCSIN_SECRET as the other services have it, or point --data at their directory",
    )


@dataclass
class _Service:
    name: str
    command: str
    settings: Settings
    url: str
    restarts: int = 0
    process: asyncio.subprocess.Process | None = None
    watcher: asyncio.Task[None] | None = None
    log_file: IO[bytes] | None = None
    was_ready: bool = False
    refused: str = ""  # why it does not want to run at all
    instance: str = ""  # the process that was started last, as it calls itself


class System:
    """One cluster, one coordinator and some brokers. Use as an async context manager."""

    def __init__(self, settings: Settings, *, brokers: int = 1, fixed_ports: bool = False) -> None:
        """`fixed_ports`: as the settings say; otherwise free ones are taken."""
        self.settings = ensure_secret(settings)
        ports = _Ports(settings, fixed_ports)
        base = self.settings
        cluster_port, coordinator_port = ports.next("cluster"), ports.next("coordinator")
        self.cluster_url = f"http://{base.host}:{cluster_port}"
        self.coordinator_url = f"http://{base.host}:{coordinator_port}"
        base = msgspec.structs.replace(
            base,
            cluster_port=cluster_port,
            coordinator_port=coordinator_port,
            cluster_url=self.cluster_url,
            coordinator_url=self.coordinator_url,
        )
        self._services = {
            "cluster": _Service("cluster", "cluster", base, self.cluster_url),
            "coordinator": _Service("coordinator", "coordinator", base, self.coordinator_url),
        }
        self.broker_urls: dict[str, str] = {}
        for number in range(1, brokers + 1):
            name = f"broker_{number}"
            port = ports.next("broker")
            own = msgspec.structs.replace(
                base,
                broker_name=name,
                broker_port=port,
                broker_ws_port=ports.next("broker_ws"),
                page_cache=base.page_cache or str(base.data / "pages"),
            )
            self.broker_urls[name] = f"http://{base.host}:{port}"
            self._services[name] = _Service(name, "broker", own, self.broker_urls[name])
        self._stopping = False

    def token(self, subject: str, *scopes: str, expires_s: float = 30 * 24 * 3600.0) -> str:
        return mint(self.settings.secret, subject, scopes, expires_s=expires_s, now=time.time())

    @property
    def names(self) -> list[str]:
        return list(self._services)

    def restarts(self, name: str) -> int:
        return self._services[name].restarts

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
        told: Callable[[str, str], None] = lambda name, url: None,
        waits: Callable[[str, str], None] = lambda name, reason: None,
    ) -> None:
        """Start everything and wait until all answer; `told` hears of each that does, `waits` of
        one that cannot yet because something outside is not there."""
        for service in self._services.values():  # before anybody is started for nothing
            for setting in PORTS[service.command]:
                port = getattr(service.settings, setting)
                listen(service.settings.host, port, setting).close()
        for service in self._services.values():
            await self._spawn(service)
            service.watcher = asyncio.create_task(self._watch(service))
        for service in self._services.values():
            await self._until_ready(service, waits)
            told(service.name, service.url)

    async def stop(self) -> None:
        """Ask all to stop, brokers first; what does not listen is killed."""
        self._stopping = True
        for service in reversed(self._services.values()):
            if service.watcher is not None:
                service.watcher.cancel()
            process = service.process
            if process is not None and process.returncode is None:
                process.send_signal(signal.SIGTERM)
                try:
                    await asyncio.wait_for(process.wait(), STOP_LIMIT_S)
                except TimeoutError:
                    process.kill()
                    await process.wait()
            if service.log_file is not None:
                service.log_file.close()

    async def kill(self, name: str) -> None:
        """kill -9. The watcher starts it again, as an operator's supervisor would."""
        service = self._services[name]
        if service.process is not None and service.process.returncode is None:
            _kill_tree(service.process.pid)

    def pid(self, name: str) -> int:
        """Of a service's process as it runs now."""
        process = self._services[name].process
        assert process is not None
        return process.pid

    async def ready(self, name: str) -> None:
        """Wait until a service answers (again)."""
        await self._until_ready(self._services[name])

    def _log(self, service: _Service) -> Path:
        return self.settings.data / "logs" / f"{service.name}.log"

    async def _spawn(self, service: _Service) -> None:
        if service.log_file is None:
            self._log(service).parent.mkdir(parents=True, exist_ok=True)
            service.log_file = self._log(service).open("ab")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(PREFIX)}
        environment |= _environment(service.settings)
        service.instance = secrets.token_hex(16)
        service.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tocsin",
            service.command,
            env=environment | {SUPERVISED: "1", INSTANCE: service.instance},
            stdin=asyncio.subprocess.PIPE,  # it ends with us, however we end
            stdout=service.log_file,
            stderr=service.log_file,
            start_new_session=True,  # Ctrl-C reaches us alone; we stop them in order
        )

    async def _watch(self, service: _Service) -> None:
        """Start a service again when it dies, with growing pauses if it keeps dying."""
        wait_s = 0.1
        while True:
            assert service.process is not None
            started = time.monotonic()
            code = await service.process.wait()
            if self._stopping:
                return
            if code == MISCONFIGURED and not service.was_ready:
                service.refused = self._last_error(service)
                return
            if time.monotonic() - started > 30:
                wait_s = 0.1
            log.warning("a service died and is started again", service=service.name, code=code)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_RESTART_WAIT_S)
            service.restarts += 1
            await self._spawn(service)

    def _last_error(self, service: _Service) -> str:
        """What it complained of, as the command line writes it."""
        written = self._log(service).read_text(errors="replace")
        return written.rpartition("error: ")[2].strip() or f"see {self._log(service)}"

    async def _until_ready(
        self,
        service: _Service,
        waits: Callable[[str, str], None] = lambda name, reason: None,
    ) -> None:
        waited_for = ""
        deadline = time.monotonic() + START_LIMIT_S
        path = "/v1/status" if service.command == "cluster" else "/healthz"
        async with httpx.AsyncClient(timeout=2.0) as client:
            while time.monotonic() < deadline:
                if service.refused:
                    raise SettingError(f"the {service.command} cannot start: {service.refused}")
                with contextlib.suppress(*NO_ANSWER):
                    _check_who_answers(service, await client.get(service.url + "/healthz"))
                    answer = await client.get(service.url + path)
                    told = answer.json() if answer.status_code == 200 else {"ready": False}
                    if told.get("ready", True):
                        service.was_ready = True
                        return
                    if reason := str(told.get("waits_for") or ""):
                        deadline = time.monotonic() + START_LIMIT_S  # it is not the service's fault
                        if reason != waited_for:
                            waits(service.name, reason)
                        waited_for = reason
                await asyncio.sleep(0.1)
        raise Unavailable(
            f"{service.name} did not become ready in {START_LIMIT_S:.0f} s",
            hint=f"its log is {self._log(service)}",
        )


def _check_who_answers(service: _Service, health: httpx.Response) -> None:
    """Another Tocsin on the port would answer as well as ours, and know none of our tokens."""
    try:
        instance = msgspec.json.decode(health.content, type=_Health).instance
    except msgspec.MsgspecError:
        by = "another program"
    else:
        if instance == service.instance:
            return
        by = "another Tocsin"
    setting = PORTS[service.command][0]
    raise taken(getattr(service.settings, setting), setting, by)


class _Health(msgspec.Struct):
    instance: str | None


class _Ports:
    """Ports for the services: those of the settings, or free ones."""

    def __init__(self, settings: Settings, fixed: bool) -> None:
        self._settings = settings
        self._fixed = fixed
        self._given: set[int] = set()

    def next(self, kind: str) -> int:
        wanted = int(getattr(self._settings, f"{kind}_port")) if self._fixed else 0
        while wanted in self._given:
            wanted += 2  # a second broker takes the next pair
        if wanted == 0:
            with socket.socket() as probe:
                probe.bind((self._settings.host, 0))
                wanted = int(probe.getsockname()[1])
            if wanted in self._given:
                return self.next(kind)
        self._given.add(wanted)
        return wanted


def _environment(settings: Settings) -> dict[str, str]:
    defaults = Settings()
    return {
        PREFIX + name.upper(): str(value)
        for name, value in msgspec.structs.asdict(settings).items()
        if value != getattr(defaults, name)
    }


def _kill_tree(pid: int) -> None:
    """The process and its children (Spark's JVM): the group that `start_new_session` made."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def data_directory(path: Path) -> Path:
    """The directory, or a clear word why it cannot be used."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(
            f"cannot use the data directory {path}: {error.strerror}", field="data"
        ) from None
    return path
