"""What Spark itself reads in a query: the wall behind `allowed`.

Spark's own parser reads the very text that it is given to run, and its tree is compared with what
is allowed, class by class and name by name. So it does not matter whether sqlglot reads a text as
Spark does: where they differ, Spark's reading decides. Nothing is run or looked up for that.

After analysis there is one thing left that a name can be: a bare word that is no column, such as
`user` or `current_date`, is taken for a function of the session. `check_names` looks for those.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tocsin.errors import StatementError
from tocsin.spark.channels.allowed import OURS, OURS_IN_CHANNELS, REPEATABLE
from tocsin.spark.channels.allowed_functions import ALLOWED, CLOCK, TABLE_FUNCTIONS
from tocsin.spark.channels.dialect import QueryText

_ROOT = "org.apache.spark.sql.catalyst."
_FUNCTIONS = ALLOWED | CLOCK | OURS | OURS_IN_CHANNELS
_CLASSES = frozenset(
    _ROOT + name
    for prefix, names in {
        "": "AliasIdentifier FunctionIdentifier",
        "analysis": """
            MultiAlias NamedParameter UnresolvedAlias UnresolvedAttribute UnresolvedExtractValue
            UnresolvedFunction UnresolvedGenerator UnresolvedHaving UnresolvedInlineTable
            UnresolvedOrdinal UnresolvedRelation UnresolvedStar UnresolvedStarExceptOrReplace
            UnresolvedSubqueryColumnAliases UnresolvedTableValuedFunction UnresolvedTVFAliases
        """,
        "expressions": """
            Add Alias And Ascending$ AttributeReference BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
            CaseWhen Cast Coalesce Collate Concat CreateNamedStruct Cube CurrentRow$ Descending$
            Divide EqualNullSafe EqualTo Exists ExprId GreaterThan GreaterThanOrEqual GroupingSets
            ILike In InSubquery IntegralDivide IsNotNull IsNull IsUnknown$$anon$1 LambdaFunction
            LateralSubquery LessThan LessThanOrEqual Like LikeAll LikeAny ListQuery Literal Lower
            Multiply NamedArgumentExpression Not NotLikeAll NotLikeAny NullsFirst$ NullsLast$ Or
            Overlay RLike RangeFrame$ Remainder Rollup RowFrame$ ScalarSubquery ShiftLeft ShiftRight
            ShiftRightUnsigned SortOrder SpecifiedWindowFrame StringLocate StringTrim StringTrimLeft
            StringTrimRight Substring Subtract TimestampAdd TimestampDiff UnaryMinus UnaryPositive
            UnboundedFollowing$ UnboundedPreceding$ UnresolvedCollation
            UnresolvedNamedLambdaVariable UnspecifiedFrame$ WindowExpression WindowSpecDefinition
        """,
        "expressions.aggregate": "AggregateExpression AnyValue Complete$ First Last",
        "plans": "Inner$ Cross$ LeftOuter$ RightOuter$ FullOuter$ LeftSemi$ LeftAnti$ UsingJoin"
        " NaturalJoin",
        "plans.logical": """
            Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin
            LimitAll LocalLimit LocalRelation Offset OneRowRelation Pivot Project Sort
            SubqueryAlias Union Unpivot UnresolvedHint UnresolvedWith
        """,
    }.items()
    for name in (f"{prefix}.{name_part}" if prefix else name_part for name_part in names.split())
) | {"scala.Tuple2", "scala.Tuple3"}
_UNSEEN = {
    "Join": "hint",
    "Literal": "value",  # NULL
    "LocalRelation": "data",  # VALUES that were literals
    "UnresolvedRelation": "options",
    "Cast": "evalMode",
    "Like": "escapeChar",
    "ILike": "escapeChar",
    "Cube": "groupingSetIndexes",
    "Rollup": "groupingSetIndexes",
    "GroupingSets": "groupingSetIndexes",
    "LikeAll": "patterns",  # constants, like those of its siblings
    "LikeAny": "patterns",
    "NotLikeAll": "patterns",
    "NotLikeAny": "patterns",
}
"""What Spark leaves out of the tree it shows; no part of a query may hide in anything else."""
_HINTS = (
    "BROADCAST",
    "SHUFFLE_HASH",
)  # of compiled queries; in an author's text `allowed` refuses them
_CHANGES = "evalContext"  # of every computation: what an overflow gives

_SESSION_CLASSES = re.compile(
    r'"class":"[\w.]*\.(?:Current(?:User|Catalog|Database|Schema|Path|TimeZone)|VariableReference'
    r"|InputFile\w+|ScriptTransformation|\w*Reflect\w*|SparkVersion)\"",
)
_CLOCK_CLASSES = re.compile(
    r'"class":"[\w.]*\.(?:Current(?:Date|Time|Timestamp|BatchTimestamp)|Now|LocalTimestamp)"'
)
_MOST_REMEMBERED = 4096
_read: dict[str, None] = {}


def check_reading(spark: SparkSession, sql: str) -> None:
    """Refuse `sql` if Spark reads anything in it that is not allowed. Each text is read once."""
    if sql in _read:
        return
    session = spark._jsparkSession
    # Spark reads by the settings of a thread's active session, and by its defaults without one.
    assert spark._jvm is not None
    spark._jvm.SparkSession.setActiveSession(session)
    parser = session.sessionState().sqlParser()
    _check(json.loads(parser.parsePlan(sql).toJSON()))
    if len(_read) >= _MOST_REMEMBERED:
        _read.clear()
    _read[sql] = None


def check_names(query: QueryText, frame: DataFrame, *, channel: bool) -> None:
    """Refuse names that turned out to be functions of the session, or in a channel the clock."""
    analysed = frame._jdf.queryExecution().analyzed().toJSON()
    if _SESSION_CLASSES.search(analysed):
        written = re.search(r"\b(?:current_|session_)?user\b", query.text, re.IGNORECASE)
        raise query.error(
            "the name of a column is expected: who runs the query is not available",
            written.start() if written else 0,
        )
    if channel and _CLOCK_CLASSES.search(analysed):
        written = re.search(r"\b(?:current|local)_?(?:date|time)\w*", query.text, re.IGNORECASE)
        raise query.error(
            "the current time gives another answer each time, so a run could not be repeated",
            written.start() if written else 0,
            hint=REPEATABLE,
        )


def _check(part: Any) -> None:
    if isinstance(part, list):
        for item in part:
            _check(item)
    elif isinstance(part, dict):
        _check_node(part)
        for item in part.values():
            _check(item)


def _check_node(node: dict[str, Any]) -> None:
    """Objects without a class are Spark's own descriptions of types."""
    kind = node.get("class") or node.get("product-class") or node.get("object")
    if kind is None:
        return
    name = str(kind).rpartition(".")[2]
    if kind not in _CLASSES:
        raise _refusal(name)
    for field, value in node.items():
        if value is None and field not in (_UNSEEN.get(name), _CHANGES):
            raise _refusal(f"{name}.{field}")
    if name == "UnresolvedFunction":
        _check_function(node["nameParts"], _FUNCTIONS)
    elif name == "UnresolvedTableValuedFunction":
        _check_function(node["name"], TABLE_FUNCTIONS)
    elif name == "FunctionIdentifier":
        extra = node.keys() - {"product-class", "funcName"}
        _check_function(f"[{node['funcName']}]" if not extra else "", TABLE_FUNCTIONS)
    elif name == "UnresolvedHint" and node["name"].upper() not in _HINTS:
        raise StatementError("hints are not available")
    elif name == "UnresolvedRelation" and "," in node["multipartIdentifier"]:
        raise StatementError("a query names something that is no dataset")


def _check_function(written: str, allowed: frozenset[str]) -> None:
    name = written.removeprefix("[").removesuffix("]")
    if name.lower() not in allowed:
        raise StatementError(f"{name}() is not available")


def _refusal(what: str) -> StatementError:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", what.removesuffix("$").removeprefix("Unresolved"))
    return StatementError(
        f"this is not available in queries: {words.lower()}",
        hint="docs/reference/sql.md says what queries may consist of",
    )
