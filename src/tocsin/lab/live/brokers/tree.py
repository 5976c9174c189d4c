"""Where visits are played: brokers as processes in a complete binary tree, with all that they need,
up for as long as the plays last."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tocsin.lab.live.brokers.player import VisitPlayer
from tocsin.lab.live.system import running
from tocsin.lab.spec.progress import Progress
from tocsin.overlay.topology import balanced
from tocsin.settings import SHORT_LIVED_JAVA, Settings

HEARTBEAT_S = 3.0  # a busy machine is no reason to take a broker for dead


@contextlib.contextmanager
def staged(progress: Progress, brokers: int) -> Iterator[VisitPlayer]:
    progress.begin(f"starting {brokers} brokers", 0)
    with tempfile.TemporaryDirectory(prefix="tocsin-live-") as data:
        tree = Path(data) / "tree.toml"
        tree.write_text(_toml([f"broker_{number}" for number in range(1, brokers + 1)]))
        settings = Settings(
            data=Path(data),
            master="local[1]",
            java_options=SHORT_LIVED_JAVA,
            warm_up=False,
            overlay_tree=str(tree),
            heartbeat_s=HEARTBEAT_S,
            flush_interval_s=3600.0,  # nothing else works meanwhile
        )
        with running(settings, brokers) as (runner, system):
            player = VisitPlayer(runner, system)
            try:
                yield player
            finally:
                player.close()


def _toml(names: list[str]) -> str:
    """In the order of the names, so that publications enter at the first."""
    links = ", ".join(f'["{broker}", "{other}"]' for broker, other in balanced(names).links)
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"brokers = [{quoted}]\nlinks = [{links}]\n"
