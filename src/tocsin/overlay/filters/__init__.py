"""Filters over the columns of a dataset: what they mean, which of many match a record, which cover
others. `tocsin.sql` reads them from text."""

from tocsin.overlay.filters.conjunction import both, conjunction, tidied
from tocsin.overlay.filters.covering import covers, overlap
from tocsin.overlay.filters.filter import Constraint, Filter, Near, Record, matches
from tocsin.overlay.filters.text_form import as_text

__all__ = [
    "Constraint",
    "Filter",
    "Near",
    "Record",
    "as_text",
    "both",
    "conjunction",
    "covers",
    "matches",
    "overlap",
    "tidied",
]
