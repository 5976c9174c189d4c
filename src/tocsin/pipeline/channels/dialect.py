"""A query's text to a tree: Spark's SQL plus `NEW dataset`, with the place of what it names.

Knows nothing of channels' forms or of Spark at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

from msgspec import Struct
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from tocsin.errors import StatementError
from tocsin.language.tokens import place, tokenize

RESERVED = "__"
"""Names that begin so are ours: parameters, keys and markers in compiled queries."""

_NAME_TOKENS = (TokenType.VAR, TokenType.IDENTIFIER)


def _placeholder(parser: Any) -> exp.Expr | None:
    start = parser._prev.start
    read: Callable[[Any], exp.Expr | None] = SparkParser.PLACEHOLDER_PARSERS[TokenType.COLON]
    made = read(parser)
    if made is not None:
        made.meta["start"] = start
    return made


class TocsinDialect(Spark):
    class Parser(SparkParser):
        PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Any]] = {
            **SparkParser.PLACEHOLDER_PARSERS,
            TokenType.COLON: _placeholder,
        }

        def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            marked = (
                self._curr is not None
                and self._curr.text.upper() == "NEW"
                and self._next is not None
                and self._next.token_type in _NAME_TOKENS
            )
            if marked:
                self._advance()
            table = super()._parse_table(*args, **kwargs)
            if marked and table is not None:
                table.meta["new"] = True
            return table


class QueryText(Struct, frozen=True):
    """A query as written, and where it began in its author's text."""

    text: str
    line: int = 1
    column: int = 1

    def error(
        self, message: str, offset: int | None, *, field: str | None = None, hint: str | None = None
    ) -> StatementError:
        line, column = place(self.text, offset or 0)
        return StatementError(
            message,
            line=self.line + line - 1,
            column=column + (self.column - 1 if line == 1 else 0),
            field=field,
            hint=hint,
        )

    def error_at(
        self,
        message: str,
        node: exp.Expr,
        *,
        field: str | None = None,
        hint: str | None = None,
    ) -> StatementError:
        return self.error(message, offset_of(node), field=field, hint=hint)

    def offset_of_call(self, function: str) -> int | None:
        """Where a function is first called."""
        tokens = tokenize(self.text)
        for token, following in pairwise(tokens):
            if token.text.lower() == function.lower() and following.text == "(":
                return token.start
        return None


def offset_of(node: exp.Expr) -> int | None:
    """Where the first named thing under a node was written."""
    places = [each.meta["start"] for each in node.walk() if "start" in each.meta]
    return min(places) if places else None


def parse_query(query: QueryText) -> exp.Query:
    """The query as a tree; a StatementError when it is not one query."""
    try:
        trees = TocsinDialect().parse(query.text)
    except ParseError as error:
        raise _syntax_error(query, error) from None
    except SqlglotError as error:
        raise query.error(f"the query cannot be read: {error}", 0) from None
    trees = [tree for tree in trees if tree is not None]
    if len(trees) != 1:
        raise query.error("expected one query", 0)
    tree = trees[0]
    while isinstance(tree, exp.Subquery) and not tree.alias and isinstance(tree.this, exp.Query):
        tree = tree.this
    if not isinstance(tree, exp.Query):
        raise query.error("expected a query: SELECT or WITH", 0)
    for name in tree.find_all(exp.Identifier):
        if name.name.startswith(RESERVED):
            raise query.error_at(
                f"{name.name!r}: names that begin with __ are kept for Tocsin", name
            )
    return tree


def _syntax_error(query: QueryText, error: ParseError) -> StatementError:
    told = error.errors[0] if error.errors else {}
    marked = str(told.get("highlight") or "")
    before = str(told.get("start_context") or "")
    offset = query.text.find(before + marked)
    offset = offset + len(before) if offset >= 0 else 0
    reason = str(told.get("description") or "it cannot be read").rstrip(".")
    if "<class" in reason:  # sqlglot speaks of its own insides
        reason = "something is missing"
    near = f" near {marked!r}" if marked else " at the end"
    return query.error(f"syntax error{near}: {reason}", offset)


def to_spark(node: exp.Expr) -> str:
    return node.sql(dialect=Spark)


def snippet(text: str) -> exp.Expr:
    """One of our own expressions as a tree."""
    made = TocsinDialect().parse(f"SELECT {text}")[0]
    assert isinstance(made, exp.Select)
    return made.selects[0].copy()
