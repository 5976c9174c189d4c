"""Words that cannot be names: a query could not name what bears them without quoting it.

Found by trying each keyword in queries that name a column, a dataset and a parameter in every place
(`tests/spark/channels/test_reserved_words.py` tries the others).
"""

from __future__ import annotations

_WORDS = """
all alter and any as between case create cross cube current_date current_path current_timestamp
current_user
describe distinct drop else except false fetch for from glob grant having if ilike inner insert
intersect interval into join lateral like limit lock minus not notnull null offset on or outer
partitioned_by qualify regexp returning revoke rlike rollback rollup select serdeproperties
session_user
tablesample then true uncache union using values when where window with xor
"""
RESERVED_WORDS = frozenset(_WORDS.split())
RESERVED_FOR_DATASETS = RESERVED_WORDS | {"new", "stream"}
"""Both mean something before a dataset's name."""
