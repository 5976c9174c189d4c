"""A statement's text as tokens with positions, and the small steps every reader takes over them.

Tokenising is sqlglot's (its Spark dialect); positions count from 1 in the text as written.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import ClassVar, NoReturn, TypeVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from tocsin.errors import StatementError
from tocsin.sql.reserved import RESERVED_WORDS

T = TypeVar("T")

NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
NAME_RULE = "names are letters, digits and _, begin with a letter, and have at most 63 characters"

_OPENING = re.compile(r"--|/\*|['\"`]")
_CLOSING = {
    "'": re.compile(r"(?:[^'\\]++|\\.|'')*+'", re.DOTALL),
    '"': re.compile(r'(?:[^"\\]++|\\.|"")*+"', re.DOTALL),
    "`": re.compile(r"[^`]*`"),
    "/*": re.compile(r".*?\*/", re.DOTALL),
}

MOST_TOKENS = 250_000
"""So many words, numbers, texts and signs are in one text. Each becomes an object."""
MOST_DEPTH = 64
"""Parentheses in parentheses: readers call themselves for each."""
MOST_QUERY_CHARACTERS = 64 * 1024
TOO_DEEP = f"this nests deeper than {MOST_DEPTH} levels"
_PIECE = re.compile(
    r"'(?:[^'\\]++|\\.|'')*+(?:'|\Z)"
    r'|"(?:[^"\\]++|\\.|"")*+(?:"|\Z)'
    r"|`[^`]*+(?:`|\Z)|--[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)|\w++|[^\w\s]",
    re.DOTALL,
)
"""About a token; what is left open goes to the end, so that nothing is looked at twice."""
_STEP = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}


class SparkTokenizer(Spark.Tokenizer):
    """As Spark reads them since 4.0, a doubled quote in a text is one quote: 'it''s'."""

    STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']


class _Dialect(Spark):
    class Tokenizer(SparkTokenizer):
        # SHOW is an ordinary word here; Spark's dialect would swallow the rest of the statement.
        COMMANDS: ClassVar[set[TokenType]] = set()
        # One token per word, so that PRIMARY KEY may be written over two lines.
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if " " not in word
        }


def place(text: str, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset into `text`."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class Places:
    """Lines and columns of many offsets into one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: list[int] | None = None

    def of(self, offset: int) -> tuple[int, int]:
        """As `place` says, without counting from the beginning each time."""
        if self._ends is None:
            self._ends = [match.start() for match in re.finditer("\n", self._text)]
        lines = bisect_left(self._ends, offset)
        return lines + 1, offset - (self._ends[lines - 1] if lines else -1)


def tokenize(text: str) -> list[Token]:
    if len(text) > MOST_TOKENS:
        _refuse_long(text)
    try:
        return list(_Dialect().tokenize(text))
    except TokenError:
        raise _broken_token(text) from None


def _refuse_long(text: str) -> None:
    """Before anything is made of it."""
    for count, piece in enumerate(_PIECE.finditer(text), start=1):
        if count > MOST_TOKENS:
            line, column = place(text, piece.start())
            raise StatementError(
                f"there are more than {MOST_TOKENS} words and signs",
                line=line,
                column=column,
                hint="send the statements in several requests; POST records instead of INSERT",
            )


def _broken_token(text: str) -> StatementError:
    """sqlglot says only that it failed: find the quote or comment that was left open."""
    at = 0
    while opening := _OPENING.search(text, at):
        opened, start = opening.group(), opening.start()
        if opened == "--":
            at = (text.find("\n", start) + 1) or len(text)
            continue
        closing = _CLOSING[opened].match(text, opening.end())
        if closing is None:
            line, column = place(text, start)
            return StatementError(f"{opened} is opened and never closed", line=line, column=column)
        at = closing.end()
    return StatementError("this text cannot be read as SQL", line=1, column=1)


class Reader:
    """A cursor over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.at = 0
        self._places = Places(text)
        self._end = len(text.rstrip())
        self._depth = 0

    def place(self, offset: int) -> tuple[int, int]:
        return self._places.of(offset)

    @property
    def token(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    @property
    def offset(self) -> int:
        """Where the next token begins; the end of the text when there is none."""
        return self.token.start if self.token else self._end

    @property
    def ended(self) -> bool:
        return self.token is None or self.token.token_type is TokenType.SEMICOLON

    def advance(self) -> Token:
        token = self.token
        if token is None:
            self.fail("more of the statement")
        self.at += 1
        return token

    def sees(self, *words: str) -> bool:
        """Whether the next tokens are these words or signs, in any case, outside quotes."""
        ahead = self.tokens[self.at : self.at + len(words)]
        return len(ahead) == len(words) and all(
            token.text.upper() == word and token.token_type is not TokenType.STRING
            for token, word in zip(ahead, words, strict=True)
        )

    def accept(self, *words: str) -> bool:
        if not self.sees(*words):
            return False
        self.at += len(words)
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                self.fail(word)

    def shown_token(self) -> str:
        if self.token is None:
            return "the end of the text"
        return f"'{self.text[self.token.start : self.token.end + 1]}'"

    def expected(self, what: str, *, hint: str | None = None) -> StatementError:
        line, column = self.place(self.offset)
        message = f"expected {what}, found {self.shown_token()}"
        return StatementError(message, line=line, column=column, hint=hint)

    def fail(self, what: str, *, hint: str | None = None) -> NoReturn:
        raise self.expected(what, hint=hint)

    def fail_at(
        self, offset: int, message: str, *, field: str | None = None, hint: str | None = None
    ) -> NoReturn:
        line, column = self.place(offset)
        raise StatementError(message, line=line, column=column, field=field, hint=hint)

    def word(self, what: str) -> str:
        """An identifier as written, keyword or not."""
        token = self.token
        raw = self.text[token.start : token.end + 1] if token else ""
        bare = raw.strip("`")
        if token is None or token.token_type is TokenType.STRING or not re.match(r"\w", bare):
            self.fail(what)
        self.at += 1
        return bare

    def name(self, what: str) -> str:
        """A name that we keep, folded to lower case."""
        return self.cased_name(what).lower()

    def cased_name(self, what: str) -> str:
        """A name that we keep as it is written, by the rule."""
        start = self.offset
        name = self.word(what)
        if not NAME.fullmatch(name.lower()):
            self.fail_at(start, f"{name!r} cannot be {what}", hint=NAME_RULE)
        return name

    def new_name(
        self, what: str, reserved: frozenset[str] = RESERVED_WORDS, *, folded: bool = True
    ) -> str:
        """A name that is given here and now: it must be one that queries can write."""
        start = self.offset
        name = self.cased_name(what)
        if name.lower() in reserved:
            self.fail_at(
                start,
                f"{name!r} cannot be {what}: it is a word of SQL",
                field=name,
                hint=f"choose another, such as {name}_",
            )
        return name.lower() if folded else name

    def string(self, what: str) -> str:
        token = self.token
        if token is None or token.token_type is not TokenType.STRING:
            self.fail(what)
        self.at += 1
        return token.text

    def whole_number(self) -> int | None:
        """The next token as a number that the store can hold; None, and no step, if it is none."""
        text = self.token.text if self.token else ""
        if not re.fullmatch(r"[0-9]{1,18}", text):
            return None
        self.at += 1
        return int(text)

    def listed(self, read: Callable[[Reader], T], what: str) -> list[T]:
        """One item or more in parentheses, between commas."""
        start = self.offset
        self.expect("(")
        self._depth += 1
        if self._depth > MOST_DEPTH:
            self.fail_at(start, TOO_DEEP)
        items = [read(self)]
        while self.accept(","):
            items.append(read(self))
        self._depth -= 1
        if not self.accept(")"):
            self.fail(f"',' or ')' after {what}")
        return items

    def rest(self) -> tuple[str, int]:
        """The text up to the statement's end, and where it begins."""
        start = self.offset
        end = start
        depth = 0
        while not self.ended:
            token = self.advance()
            depth += _STEP.get(token.token_type, 0)
            if depth > MOST_DEPTH:
                self.fail_at(token.start, TOO_DEEP)
            end = token.end + 1
        if end - start > MOST_QUERY_CHARACTERS:
            self.fail_at(start, f"a query has at most {MOST_QUERY_CHARACTERS} characters")
        return self.text[start:end], start
