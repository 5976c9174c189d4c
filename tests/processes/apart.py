"""A Spark cluster whose workers share nothing with the driver but the network: they have mount and
network namespaces of their own and run as another user, as on other machines.

What listens on this machine's loopback is brought there by relays, since servers for tests listen
nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tocsin.dev.spark import SparkCluster
from tocsin.spark.jars import jar_directory
from tocsin.system.launching import Command

HERE, THERE, BITS = "10.213.77.1", "10.213.77.2", 30
USER = "65534"
ROOT = Path(__file__).parents[2]
_PROGRAMS = ("ip", "unshare", "setpriv", "mount")


def lacking() -> str | None:
    """Why such workers cannot be had here."""
    if os.geteuid() != 0:
        return "only root makes namespaces for workers that share no file system"
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"workers that share no file system need {', '.join(missing)}"
    tried = subprocess.run(["unshare", "-mn", "true"], capture_output=True, text=True)
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else None


class ApartCluster(SparkCluster):
    """Its workers run in the network namespace of `network`."""

    name = "spark-apart"
    host = HERE
    worker_host = THERE
    namespace = ""
    hidden: Sequence[Path] = ()

    def _elsewhere(self, command: Command) -> Command:
        work = self.data / "workers"
        words = ["ip", "netns", "exec", self.namespace, "unshare", "-m", "sh", "-ec"]
        words.append(self._script(command.words, work))
        return msgspec.structs.replace(command, words=words)

    def _script(self, words: Sequence[str], work: Path) -> str:
        """Programs and libraries are there, as installed on every machine; jars that we fetched,
        data and servers' files are not. Folders that nobody but root may enter become others."""
        needed = [Path(sys.base_prefix), Path(sys.prefix), ROOT / "src"]
        closed = sorted({path for path in map(_closed, needed) if path is not None})
        lines = ["mount --make-rprivate /", "mkdir -p /run/apart", "mount -t tmpfs none /run/apart"]
        for number, path in enumerate(needed):
            lines += [f"mkdir /run/apart/{number}", f"mount --bind {path} /run/apart/{number}"]
        for path in (*closed, *self.hidden, jar_directory(), ROOT / "tests"):
            lines.append(f"[ ! -d {path} ] || mount -t tmpfs -o mode=755 none {path}")
        for number, path in enumerate(needed):
            lines += [f"mkdir -p {path}", f"mount --bind /run/apart/{number} {path}"]
        lines += [f"mkdir -p {work}", f"chown {USER} {work}"]
        worker = [str(work) if word.startswith(str(self.data)) else word for word in words]
        setpriv = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *worker]
        lines += [f"cd {work}", f"HOME={work} exec {shlex.join(setpriv)}"]
        return "\n".join(lines)


def _closed(path: Path) -> Path | None:
    """The first folder on the way that others may not enter."""
    for folder in [*reversed(path.parents), path]:
        if not folder.stat().st_mode & 0o001:
            return folder
    return None


@contextlib.contextmanager
def network(name: str, ports: Sequence[int]) -> Iterator[str]:
    """A network namespace from which this machine is reached at `HERE`, and its loopback's ports
    at those of its own loopback."""
    relays: list[subprocess.Popen[bytes]] = []
    inside, outside = f"{name[:12]}-i", f"{name[:12]}-o"
    _run("ip", "netns", "add", name)
    try:
        _run("ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name)
        _run("ip", "addr", "add", f"{HERE}/{BITS}", "dev", outside)
        _run("ip", "link", "set", outside, "up")
        into = ("ip", "netns", "exec", name)
        _run(*into, "ip", "addr", "add", f"{THERE}/{BITS}", "dev", inside)
        for device in (inside, "lo"):
            _run(*into, "ip", "link", "set", device, "up")
        numbers = list(map(str, ports))
        relay = [sys.executable, __file__]
        relays.append(subprocess.Popen([*relay, HERE, "127.0.0.1", *numbers]))
        relays.append(subprocess.Popen([*into, *relay, "127.0.0.1", HERE, *numbers]))
        yield name
    finally:
        for process in relays:
            process.kill()
            process.wait()
        _run("ip", "netns", "del", name)  # and with it both ends of the pair


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=20)


async def _relay(listen: str, target: str, ports: Sequence[int]) -> None:
    async def serve(port: int) -> None:
        async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await reader.read(1 << 16):
                    writer.write(data)
                    await writer.drain()
            writer.close()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                there, back = await asyncio.open_connection(target, port)
            except OSError:
                writer.close()
                return
            await asyncio.gather(pump(reader, back), pump(there, writer))

        server = await asyncio.start_server(connected, listen, port)
        await server.serve_forever()

    await asyncio.gather(*map(serve, ports))


if __name__ == "__main__":
    asyncio.run(_relay(sys.argv[1], sys.argv[2], list(map(int, sys.argv[3:]))))
