"""What an application imports: subscribe and iterate in five lines, publish, run statements.

async with Client("http://127.0.0.1:7410", token=token) as tocsin:
    async with await tocsin.subscribe("emergencies_of_type", type="flood") as floods:
        async for alert in floods:
            print(alert.value)

Consumer logs are read from Kafka: what they need comes with the extra `kafka`, and is imported when
it is first asked for.
"""

from typing import TYPE_CHECKING, Any

from tocsin.client.attachments import AttachedFile
from tocsin.client.beginning import From, Last
from tocsin.client.client import Client, Subscription
from tocsin.client.cluster import Cluster
from tocsin.client.feed import Gap, Result
from tocsin.client.group import SubscriptionGroup
from tocsin.client.sync import SyncClient, SyncSubscription, SyncSubscriptionGroup
from tocsin.model import ANY
from tocsin.protocol.publishing import Published, StatementResult
from tocsin.protocol.publishing import Rejection as Refused

if TYPE_CHECKING:
    from tocsin.client.logged_results import ConsumerLog, LoggedResult, consumer_log

__all__ = [
    "ANY",
    "AttachedFile",
    "Client",
    "Cluster",
    "ConsumerLog",
    "From",
    "Gap",
    "Last",
    "LoggedResult",
    "Published",
    "Refused",
    "Result",
    "StatementResult",
    "Subscription",
    "SubscriptionGroup",
    "SyncClient",
    "SyncSubscription",
    "SyncSubscriptionGroup",
    "consumer_log",
]

_OF_KAFKA = ("ConsumerLog", "LoggedResult", "consumer_log")


def __getattr__(name: str) -> Any:
    if name not in _OF_KAFKA:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from tocsin import extras

    extras.require("kafka")
    return getattr(import_module("tocsin.client.logged_results"), name)
