"""Channels: a parameterised query becomes one Spark query over all its parameter sets."""

from tocsin.spark.channels.analyse import analyse, check_open
from tocsin.spark.channels.attached import with_attachments
from tocsin.spark.channels.attempt import Trials
from tocsin.spark.channels.compile import CompiledChannel, compile_channel
from tocsin.spark.channels.matching import match, run_plain
from tocsin.spark.channels.openings import Mask, mask_of, settle
from tocsin.spark.channels.parameter_table import ParameterTable
from tocsin.spark.channels.parameters import Parameters
from tocsin.spark.channels.query import PlainQuery, plain_query

__all__ = [
    "CompiledChannel",
    "Mask",
    "ParameterTable",
    "Parameters",
    "PlainQuery",
    "Trials",
    "analyse",
    "check_open",
    "compile_channel",
    "mask_of",
    "match",
    "plain_query",
    "run_plain",
    "settle",
    "with_attachments",
]
