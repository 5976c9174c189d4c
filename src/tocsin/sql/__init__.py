"""Tocsin's SQL: statements, types and arguments. No Spark, no storage."""

from tocsin.beginnings import checked as checked_beginning
from tocsin.beginnings import parse_beginning
from tocsin.sql.arguments import bind_arguments, bound_arguments
from tocsin.sql.claims import Claims, described
from tocsin.sql.coercion import coerce, coerce_text, coercer, text_coercer
from tocsin.sql.filter_binding import bind_claims, bind_filter, parse_filter
from tocsin.sql.names import by_lower, fields_by_declared
from tocsin.sql.parser import parse, parse_one, statements_of
from tocsin.sql.statements import (
    ChangeSubscription,
    CreateBroker,
    CreateChannel,
    CreateDataset,
    CreateRole,
    Describe,
    Drop,
    DropQuota,
    GrantPrivileges,
    Insert,
    Query,
    RevokePrivileges,
    SetQuota,
    Show,
    ShowGrants,
    ShowQuotas,
    Statement,
    Subscribe,
    SubscribeMany,
    SubscribeToDataset,
    Unsubscribe,
)
from tocsin.sql.types import SqlType, parse_type

__all__ = [
    "ChangeSubscription",
    "Claims",
    "CreateBroker",
    "CreateChannel",
    "CreateDataset",
    "CreateRole",
    "Describe",
    "Drop",
    "DropQuota",
    "GrantPrivileges",
    "Insert",
    "Query",
    "RevokePrivileges",
    "SetQuota",
    "Show",
    "ShowGrants",
    "ShowQuotas",
    "SqlType",
    "Statement",
    "Subscribe",
    "SubscribeMany",
    "SubscribeToDataset",
    "Unsubscribe",
    "bind_arguments",
    "bind_claims",
    "bind_filter",
    "bound_arguments",
    "by_lower",
    "checked_beginning",
    "coerce",
    "coerce_text",
    "coercer",
    "described",
    "fields_by_declared",
    "parse",
    "parse_beginning",
    "parse_filter",
    "parse_one",
    "parse_type",
    "statements_of",
    "text_coercer",
]
