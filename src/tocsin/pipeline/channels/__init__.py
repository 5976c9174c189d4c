"""Channels: a parameterised query becomes one Spark query over all its parameter sets."""

from tocsin.pipeline.channels.analyse import analyse, check_open, view_schema
from tocsin.pipeline.channels.attached import with_attachments
from tocsin.pipeline.channels.attempt import try_arguments
from tocsin.pipeline.channels.compile import CompiledChannel, compile_channel
from tocsin.pipeline.channels.matching import match, run_plain
from tocsin.pipeline.channels.openings import Mask, mask_of, settle
from tocsin.pipeline.channels.parameter_table import ParameterTable
from tocsin.pipeline.channels.parameters import Parameters
from tocsin.pipeline.channels.query import PlainQuery, plain_query

__all__ = [
    "CompiledChannel",
    "Mask",
    "ParameterTable",
    "Parameters",
    "PlainQuery",
    "analyse",
    "check_open",
    "compile_channel",
    "mask_of",
    "match",
    "plain_query",
    "run_plain",
    "settle",
    "try_arguments",
    "view_schema",
    "with_attachments",
]
