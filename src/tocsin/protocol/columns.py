"""The system's own columns: of stored datasets and of the tables that a channel's run is made of.

Their names begin with `_`. No declared column and no column of a subscriber's result may begin so.
"""

from __future__ import annotations

SYSTEM_PREFIX = "_"

# Of every dataset, in Parquet files and in the views that queries read
POSITION = "_position"  # BIGINT: where the record begins in its dataset's log
RECEIVED_AT = "_received_at"  # TIMESTAMP: when the log took the record
EXTRA = "_extra"  # MAP<STRING,STRING>: undeclared fields; of open datasets only

# Of a channel's table of parameter sets
BACKEND = "__backend"  # BIGINT: the backend subscription; also whom a match is for
KEY = "__key"  # BIGINT: a key of the index by which records find the set
KEY_NUMBER = "__at"  # INT: the number of that key among the set's keys, from 0
_PARAMETER = "__p_"  # with the parameter's name: its value, of the declared type

# Of the table of parameter sets that channels in real-time mode share
CHANNEL = "__channel"  # STRING: the set's channel; also whose match it is
FORM = "__form"  # INT: the number of the form that its query has among those of the members
MEMBER = "__member"  # INT: the number of the member that it belongs to
ARGUMENTS = "__arguments"  # MAP<STRING,STRING>: the set as the store has it

# Of a channel's rows
_CELL = "__n"  # BIGINT, with a number: the key of a grid cell on which two datasets are joined
PROBE_KEY = "__k"  # BIGINT: a key of the index under which a record looks for sets
ROW_BACKEND = "__out_backend"  # BIGINT: whom the row is for
ROW_ORDER = "__out_order"  # BIGINT: the row's place among those of its backend subscription

# Of a channel's matches, as `match` returns them
ORDER = "__order"  # BIGINT: the place of the match; in real-time mode the record's position
PAYLOAD = "payload"  # STRING: the result, a JSON object

# Aggregates over a table of parameter sets, which queries take by name
LEVELS = "__levels"  # the levels of the grid on which the sets have cells, as JSON
BOUNDS = "__bounds"  # the boundaries of the buckets that ranges are cut into, as JSON
COARSE_BOUNDS = "__coarse"  # every so many of these, as JSON
_REACH = "__reach"  # with a number: the largest radius of any set, in km

# Values of a run, which queries take by name
WINDOW_START = "__window_start"  # TIMESTAMP: the end of the run before
WINDOW_END = "__window_end"  # TIMESTAMP: the moment of the run


def is_system(name: str) -> bool:
    """Whether a column is the system's own, and not shown to subscribers."""
    return name.startswith(SYSTEM_PREFIX)


def parameter_column(name: str) -> str:
    """The column of a parameter table that holds the values of a parameter."""
    return f"{_PARAMETER}{name.lower()}"


def cell_column(number: int) -> str:
    return f"{_CELL}{number}"


def reach_fact(number: int) -> str:
    return f"{_REACH}{number}"


def is_reach_fact(name: str) -> bool:
    return name.startswith(_REACH)
