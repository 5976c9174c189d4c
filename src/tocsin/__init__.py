"""Tocsin: Big Active Data on Spark."""

__version__ = "0.1.0"
