"""Tocsin's SQL: statements, types and arguments. No Spark, no storage."""

from tocsin.language.arguments import bind_arguments
from tocsin.language.beginnings import checked as checked_beginning
from tocsin.language.beginnings import parse_beginning
from tocsin.language.filter_binding import bind_filter, parse_filter
from tocsin.language.names import by_lower, fields_by_declared
from tocsin.language.parser import parse, parse_one
from tocsin.language.statements import (
    ChangeSubscription,
    CreateBroker,
    CreateChannel,
    CreateDataset,
    Describe,
    Drop,
    Insert,
    Query,
    Show,
    Statement,
    Subscribe,
    SubscribeToDataset,
    Unsubscribe,
)
from tocsin.language.types import SqlType, coerce, coerce_text, coercer, parse_type, text_coercer

__all__ = [
    "ChangeSubscription",
    "CreateBroker",
    "CreateChannel",
    "CreateDataset",
    "Describe",
    "Drop",
    "Insert",
    "Query",
    "Show",
    "SqlType",
    "Statement",
    "Subscribe",
    "SubscribeToDataset",
    "Unsubscribe",
    "bind_arguments",
    "bind_filter",
    "by_lower",
    "checked_beginning",
    "coerce",
    "coerce_text",
    "coercer",
    "fields_by_declared",
    "parse",
    "parse_beginning",
    "parse_filter",
    "parse_one",
    "parse_type",
    "text_coercer",
]
