"""Consumers that read logs, a broker that decides what is written into them, a database behind
(kafka).

The broker reads each record, asks the admission policy, and writes an admitted one into the log
of every consumer that waits for it (or once into a log they share, and references into theirs).
The others go to the database. A consumer that finds a record missing asks for it through the
missing topic; a poller fetches what was asked for in batches and writes it into the consumers'
logs.

`simulator.simulate` and whatever plays the same live give the same `Measures`.
"""

from tocsin.lab.simulators.consumer_logs.logs import Logs
from tocsin.lab.simulators.consumer_logs.measures import Measures, Play
from tocsin.lab.simulators.consumer_logs.simulator import decide, play, simulate

__all__ = ["Logs", "Measures", "Play", "decide", "play", "simulate"]
