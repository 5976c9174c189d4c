"""What an application imports: subscribe and iterate in five lines, publish, run statements.

async with Client("http://127.0.0.1:7410", token=token) as tocsin:
    async with await tocsin.subscribe("emergencies_of_type", type="flood") as floods:
        async for alert in floods:
            print(alert.value)
"""

from tocsin.client.attachments import AttachedFile
from tocsin.client.beginning import From, Last
from tocsin.client.client import Client, Subscription
from tocsin.client.cluster import Cluster, Published, Refused, StatementResult
from tocsin.client.consumer_log import ConsumerLog, LoggedResult, consumer_log
from tocsin.client.feed import Gap, Result
from tocsin.client.sync import SyncClient, SyncSubscription
from tocsin.model import ANY

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
    "SyncClient",
    "SyncSubscription",
    "consumer_log",
]
