"""The files of a cluster that was just made: the same in every world, and made once."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tocsin.broker.machine.events import NewHead
from tocsin.cluster.broker_news import BrokerNews
from tocsin.model import Departure
from tocsin.testing.simulation.agenda import Agenda
from tocsin.testing.simulation.cluster_process import ClusterProcess
from tocsin.testing.simulation.disk import SimulatedDisk


class _Nowhere:
    """An environment in which nothing happens."""

    def __init__(self) -> None:
        self.agenda = Agenda()
        self.random = Random(0)
        self.happened = Counter[str]()

    def committed(self) -> None: ...

    def notify(
        self, news: BrokerNews, store_id: str, heads: list[NewHead], gone: list[Departure]
    ) -> None: ...

    def query_s(self) -> float:
        return 0.0

    def cluster_died(self) -> None: ...


@cache
def created() -> dict[str, bytes]:
    """The files of a cluster that was just made, by their names."""
    around = _Nowhere()
    with TemporaryDirectory(prefix="tocsin-simulation-") as name:
        directory = Path(name)
        process = ClusterProcess(around, directory, SimulatedDisk(around.random))
        process.make_all()
        process.fall(power=False)
        files = [path for path in directory.rglob("*") if path.is_file()]
        return {str(path.relative_to(directory)): path.read_bytes() for path in files}
