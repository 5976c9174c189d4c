"""Questions that were once answered wrongly or refused for no reason; those that must be refused.

Each is compared as the differential test compares what it draws.
"""

from __future__ import annotations

import json

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from tocsin.errors import StatementError
from tocsin.model import Channel, Parameter
from tocsin.spark.adhoc import answer
from tocsin.spark.channels import ParameterTable, analyse, compile_channel, match
from tocsin.sql import parse_one
from tocsin.sql.statements import CreateChannel

from .differential.data import DATASETS
from .differential.queries import Asked
from .differential.running import Laboratory

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def laboratory(spark: SparkSession) -> Laboratory:
    return Laboratory(spark)


def filled(laboratory: Laboratory) -> dict[str, DataFrame]:
    """Data with at least one report."""
    variants = map(laboratory.variant, range(12))
    return next(frames for _, frames in variants if not frames["reports"].isEmpty())


@pytest.mark.parametrize(
    ("text", "ordered"),
    [
        ("SELECT r.id, p.pid FROM NEW reports r RIGHT JOIN places p ON p.sev >= :pi", False),
        ("SELECT r.id, p.pid FROM NEW reports r LEFT JOIN places p ON p.sev = :pi", False),
        ("SELECT r.id FROM NEW reports r LEFT SEMI JOIN places p ON p.sev = :pi", False),
        ("SELECT r.id FROM NEW reports r LEFT ANTI JOIN places p ON p.sev = r.sev + :pi", False),
        ("SELECT r.id, p.pid FROM NEW reports r FULL JOIN places p ON p.sev = r.sev"
         " WHERE r.sev IS NULL OR r.sev <> :pi", False),
        ("SELECT r.id, kind FROM NEW reports r JOIN places p USING (kind) WHERE p.sev > :pi",
         False),
        # An equality with a parameter inside a derived table broke the run.
        ("SELECT d.id, :ps AS asked FROM (SELECT r.id FROM NEW reports r JOIN places p"
         " ON r.sev = :pi) AS d WHERE d.id >= 0", False),
        ("SELECT DISTINCT r.kind FROM NEW reports r WHERE r.sev <> :pi ORDER BY r.kind DESC", True),
        ("SELECT DISTINCT upper(r.kind) AS k FROM NEW reports r WHERE r.sev <> :pi"
         " ORDER BY length(k), 1 LIMIT 2", True),
        ("SELECT r.id, r.sev FROM NEW reports r WHERE r.sev > :pi"
         " UNION SELECT p.pid, p.sev FROM places p ORDER BY 2 DESC, 1", True),
        ("SELECT count(*) FILTER (WHERE r.kind = :ps) AS n FROM NEW reports r", False),
        ("SELECT sum(r.sev + :pi) AS n FROM NEW reports r HAVING count(*) > :pj", False),
        ("SELECT r.kind, count(*) AS n, grouping_id() AS g FROM NEW reports r WHERE r.sev <> :pi"
         " GROUP BY CUBE (r.kind, r.ok)", False),
        ("SELECT r.kind, r.ok, count(*) AS n FROM NEW reports r WHERE r.sev <> :pi"
         " GROUP BY GROUPING SETS ((r.kind), (r.ok), ())", False),
        ("SELECT count(*) AS n FROM NEW reports r WHERE r.sev NOT IN"
         " (SELECT p.sev FROM places p WHERE p.pid <> :pi)", False),
        ("SELECT max(r.id) AS n FROM NEW reports r"
         " WHERE EXISTS (SELECT 1 FROM places p WHERE p.sev = :pi)", False),
        ("SELECT r.id, 'it''s' AS a, \"say \"\"so\"\"\" AS b, 'it' 's' AS c FROM NEW reports r"
         " WHERE r.kind <> 'it''s' OR r.sev = :pi", False),
        ("SELECT r.USERID, r.info.LABEL, :PTEXT AS Asked FROM NEW reports r"
         " WHERE r.userid >= :Pi", False),
        ("SELECT r.price * :pi AS cost, r.price / :pm AS part FROM NEW reports r", False),
        ("SELECT r.id FROM NEW reports r WHERE r.kind LIKE :ps AND r.kind NOT LIKE :pText", False),
    ],
)  # fmt: skip
def test_the_channel_answers_what_the_query_says(
    laboratory: Laboratory, text: str, ordered: bool
) -> None:
    for seed in range(3):
        outcome = laboratory.compare(seed, Asked(text, ordered, frozenset()))
        assert outcome.refusal == ""
        assert outcome.difference == ""


@pytest.mark.parametrize(
    ("parameters", "query", "says"),
    [
        ("pi INT", "SELECT r.id FROM NEW reports r FULL OUTER JOIN places p ON p.sev = :pi",
         "ON beside a RIGHT or FULL OUTER JOIN"),
        ("pi INT", "SELECT * FROM NEW reports r RIGHT JOIN places p ON p.sev = :pi",
         "ON beside a RIGHT or FULL OUTER JOIN"),
        ("pi INT", "SELECT d.id FROM (SELECT r.id FROM NEW reports r LEFT ANTI JOIN places p"
         " ON p.sev = :pi) AS d ORDER BY d.id LIMIT 2", "ANTI JOIN in a query that is limited"),
        ("a INT, Spare INT", "SELECT id FROM NEW reports WHERE sev = :a",
         "parameter 'Spare' is not used"),
        ("pi INT", "SELECT *, 1 AS n FROM NEW reports WHERE sev = :pi ORDER BY 2", "ORDER BY 2"),
        ("pi INT", "SELECT id FROM NEW reports r WHERE id IN (SELECT max(pid) FROM places"
         " WHERE sev > (SELECT min(sev) FROM places WHERE pid = :pi))",
         "a subquery within a subquery"),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused_in_plain_words(
    spark: SparkSession, parameters: str, query: str, says: str
) -> None:
    made = parse_one(f"CREATE CONTINUOUS CHANNEL c({parameters}) AS {query}")
    assert isinstance(made, CreateChannel)
    with pytest.raises(StatementError) as caught:
        analyse(spark, compile_channel(made, DATASETS), DATASETS)
    assert says in str(caught.value)
    assert "__" not in str(caught.value)


def test_a_channel_made_before_unused_parameters_were_refused_goes_on() -> None:
    parameters = (Parameter("spare", "INT"),)
    kept = Channel("c", "continuous", parameters, "SELECT id FROM NEW reports", ("reports",), ())
    assert compile_channel(kept, DATASETS).parts


VALUES = """
    true AS b, 1 AS i, 9007199254740993L AS l, CAST(0.25 AS FLOAT) AS f, 1.5D AS d,
    CAST('12.50' AS DECIMAL(6,2)) AS m, CAST(repeat('9', 38) AS DECIMAL(38,0)) AS w,
    CAST('1.12345678901234567890' AS DECIMAL(38,20)) AS x, 'it''s' AS s,
    TIMESTAMP '2026-01-01 10:00:00' AS t, DATE '2026-01-02' AS y, array(1, NULL) AS a,
    named_struct('A', 1, 'b', DATE '2026-01-02') AS r, map('k', 1.5D) AS p, NULL AS n
"""


def test_an_ad_hoc_query_writes_values_as_a_channel_does(laboratory: Laboratory) -> None:
    query = " ".join(("SELECT", VALUES, "FROM NEW reports LIMIT 1"))
    made = parse_one("CREATE CONTINUOUS CHANNEL c() AS " + query)
    assert isinstance(made, CreateChannel)
    compiled = compile_channel(made, DATASETS)
    analyse(laboratory.spark, compiled, DATASETS)
    table = ParameterTable(laboratory.spark, compiled)
    table.replace(1, [(1, {})])
    parameters = table.current()
    assert parameters is not None
    frames = filled(laboratory)
    [row] = match(laboratory.spark, compiled, parameters, frames, frames).collect()
    found = answer(laboratory.spark, query.replace("NEW ", ""), frames.__getitem__, limit_s=60.0)
    [values] = found.rows
    payload = row["payload"]
    assert '"w":' + "9" * 38 in payload
    assert '"x":1.12345678901234567890' in payload
    told = msgspec.json.encode(dict(zip(found.columns, values, strict=True))).decode()
    assert json.loads(told) == json.loads(payload)
    assert '"x":1.12345678901234567890' in told
