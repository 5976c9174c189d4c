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
from tocsin.sql.tokens import SparkTokenizer, place, tokenize

RESERVED = "__"
"""Names that begin so are ours: parameters, keys and markers in compiled queries."""

_CALLED = "called"
_AS_WRITTEN = frozenset((
    "COLLATE", "LISTAGG", "LOCALTIMESTAMP", "MAX_BY", "MIN_BY", "PARSE_JSON", "PERCENTILE_CONT",
    "PERCENTILE_DISC", "STRING_AGG", "TO_CHAR",
))  # fmt: skip
"""Functions that sqlglot would write in another way, which to Spark means something else."""
_AROUND_CALLS = (exp.Window, exp.WithinGroup, exp.Filter, exp.IgnoreNulls, exp.RespectNulls)
_NAME_TOKENS = (TokenType.VAR, TokenType.IDENTIFIER)


def _placeholder(parser: Any) -> exp.Expr | None:
    start = parser._prev.start
    read: Callable[[Any], exp.Expr | None] = SparkParser.PLACEHOLDER_PARSERS[TokenType.COLON]
    tree = read(parser)
    if tree is not None:
        tree.meta["start"] = start
    return tree


class TocsinDialect(Spark):
    class Tokenizer(SparkTokenizer):
        pass

    class Parser(SparkParser):
        PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Any]] = {
            **SparkParser.PLACEHOLDER_PARSERS,
            TokenType.COLON: _placeholder,
        }
        FUNCTIONS: ClassVar[dict[str, Any]] = {
            name: read for name, read in SparkParser.FUNCTIONS.items() if name not in _AS_WRITTEN
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: read
            for name, read in SparkParser.FUNCTION_PARSERS.items()
            if name not in _AS_WRITTEN
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

        def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            """Every call comes through here, with or without parentheses, quoted or not."""
            token = self._curr
            parsed = super()._parse_function_call(*args, **kwargs)
            call = parsed
            while isinstance(call, _AROUND_CALLS):
                call = call.this
            if call is not None:
                call.meta[_CALLED] = token.text
                call.meta.setdefault("start", token.start)
            return parsed

        def _parse_pipe_syntax_query(self, query: exp.Query) -> exp.Query | None:
            if self._match(TokenType.PIPE_GT, advance=False):
                self.raise_error("|> is not available", self._curr)
            return query


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

    def offset_of_word(self, word: str) -> int | None:
        """Where a word or mark is first written, in capitals or not."""
        where = self.text.upper().find(word)
        return where if where >= 0 else None

    def offset_of_last(self, word: str) -> int | None:
        """Where a word last stands."""
        tokens = [token for token in tokenize(self.text) if token.text.lower() == word]
        return tokens[-1].start if tokens else None

    def offset_of_call(self, function: str) -> int | None:
        """Where a function is first called."""
        tokens = tokenize(self.text)
        for token, following in pairwise(tokens):
            if token.text.lower() == function.lower() and following.text == "(":
                return token.start
        return None


def called(node: exp.Expr) -> str | None:
    """The function's name as it was written, of a node that a call was read as."""
    name = node.meta.get(_CALLED)
    return None if name is None else str(name)


def offset_of(node: exp.Expr) -> int | None:
    """Where the first named thing under a node was written."""
    places = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(places) if places else None


def parse_query(query: QueryText) -> exp.Query:
    """The query as a tree; a StatementError when it is not one query."""
    try:
        trees = TocsinDialect().parse(query.text)
    except ParseError as error:
        raise _syntax_error(query, error) from None
    except SqlglotError as error:
        raise query.error(f"the query cannot be read: {error}", 0) from None
    except RecursionError:
        raise query.error("the query is nested too deeply to be read", 0) from None
    except (AttributeError, LookupError, TypeError, ValueError):  # of sqlglot's own, on odd texts
        raise query.error("the query cannot be read", 0) from None
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
    details = error.errors[0] if error.errors else {}
    marked = str(details.get("highlight") or "")
    before = str(details.get("start_context") or "")
    offset = query.text.find(before + marked)
    offset = offset + len(before) if offset >= 0 else 0
    reason = str(details.get("description") or "it cannot be read").rstrip(".")
    if "<class" in reason:  # sqlglot speaks of its own insides
        reason = "something is missing"
    near = f" near {marked!r}" if marked else " at the end"
    return query.error(f"syntax error{near}: {reason}", offset)


def to_spark(node: exp.Expr) -> str:
    """Without comments: what they say is nothing to Spark, and they could look like hints."""
    return node.sql(dialect=Spark, comments=False)


def snippet(text: str) -> exp.Expr:
    """One of our own expressions as a tree."""
    tree = TocsinDialect().parse(f"SELECT {text}")[0]
    assert isinstance(tree, exp.Select)
    return tree.selects[0].copy()
