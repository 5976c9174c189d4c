"""Every record that crosses a socket or a file between processes, declared once.

Both ends import the same records. A module per conversation: `client` (a client and its broker),
`publishing` and `cluster` (publishers, brokers and the cluster), `coordinator`, `link` (two
brokers), `failure` (errors, everywhere) and `health`; `queries` are the query parameters of HTTP
calls, `gap` is the payload of a result that could not be computed; `version` is what peers tell
each other first. A module per file or topic: `log_line` (the publication log), `match`,
`consumer_log`, `trace`; `columns` are those of stored datasets and of channels' tables. Records say
what travels, never what is done about it: this package must not know sockets, storage, caches or
routing.
"""

from tocsin.protocol.version import OLDEST, VERSION

__all__ = ["OLDEST", "VERSION"]
