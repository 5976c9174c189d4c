"""Commands from what is declared: a command that takes a record has the record's fields as its
options, and a group is a name and its commands. Must not know any one command.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec
import typer
from msgspec import Struct
from typer.models import ParameterInfo

Command = Callable[..., None]


class Fields(Struct, frozen=True):
    """Which fields of a record are options, and what some of them are called."""

    but: tuple[str, ...] = ()  # they keep their defaults
    written: dict[str, str] = {}


ALL_FIELDS = Fields()


def group(
    app: typer.Typer,
    name: str,
    help: str,
    commands: Mapping[str, Command],
    *,
    context_settings: dict[str, Any] | None = None,
) -> None:
    added = typer.Typer(help=help, no_args_is_help=True)
    if len(commands) == 1:
        added.callback()(_lone)
    for word, function in commands.items():
        added.command(word, context_settings=context_settings)(command(function))
    app.add_typer(added, name=name)


def _lone() -> None:
    """The one command of a group keeps its name."""


def command(function: Command) -> Command:
    """The function as a command; each field of a record that it takes is an option. A field says
    its help by `Meta(description=…)`, or is annotated as a parameter of a command is."""
    parameters: list[inspect.Parameter] = []
    records: dict[str, tuple[type[Struct], dict[str, str]]] = {}  # field → option
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        kind, metadata = _apart(parameter.annotation)
        if not (isinstance(kind, type) and issubclass(kind, Struct)):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        chosen = next((entry for entry in metadata if isinstance(entry, Fields)), ALL_FIELDS)
        fields = [field for field in msgspec.structs.fields(kind) if field.name not in chosen.but]
        names = {field.name: chosen.written.get(field.name, field.name) for field in fields}
        records[parameter.name] = kind, names
        parameters += [_option(field, names[field.name]) for field in fields]

    @functools.wraps(function)
    def called(**given: Any) -> None:
        for record, (kind, names) in records.items():
            given[record] = kind(**{field: given.pop(name) for field, name in names.items()})
        function(**given)

    called.__dict__["__signature__"] = inspect.Signature(parameters)
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _option(field: msgspec.structs.FieldInfo, name: str) -> inspect.Parameter:
    kind, metadata = _apart(field.type)
    declared = next((entry for entry in metadata if isinstance(entry, ParameterInfo)), None)
    if declared is None:
        about = next((entry for entry in metadata if isinstance(entry, msgspec.Meta)), None)
        declared = typer.Option(help=about.description if about else None)
    if typing.get_origin(kind) is Literal:
        kind = str  # the record says what is wrong with another word
    default = inspect.Parameter.empty if field.default is msgspec.NODEFAULT else field.default
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, declared],
    )


def _apart(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    if typing.get_origin(annotation) is not Annotated:
        return annotation, ()
    kind, *metadata = typing.get_args(annotation)
    return kind, tuple(metadata)
