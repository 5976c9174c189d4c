"""The reference of all records that cross sockets, written from the records themselves, so that it
cannot go stale: a JSON Schema, and the tables of the protocol's page.

python -m tocsin.protocol.listing docs/reference
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from msgspec import Struct

from tocsin.protocol import (
    VERSION,
    appends,
    broker,
    client,
    cluster,
    commits,
    coordinator,
    failure,
    gap,
    health,
    keys,
    link,
    publishing,
    queries,
)

MODULES = (
    *(client, broker, gap, publishing, appends, cluster, commits, coordinator, link, failure),
    *(health, keys, queries),
)
PAGE, SCHEMA = "protocol.md", "protocol.schema.json"
REFERENCE = "#/$defs/{name}"

_BEGIN, _END = "<!-- records: written by python -m tocsin.protocol.listing -->\n", "<!-- end -->\n"
_HEAD = "| field | type | |\n|---|---|---|\n"


def records(module: ModuleType) -> list[type[Struct]]:
    """Those that a module declares, in its order."""
    return [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Struct)
        and kind.__module__ == module.__name__
    ]


def schema() -> dict[str, Any]:
    """The JSON Schema of every record, by its name."""
    kinds = [kind for module in MODULES for kind in records(module)]
    _, definitions = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    # A record that is generic in its payload's type is the same on the wire whichever it is.
    text = re.sub(rb"(\w+?)_+(?:V|Any|Raw)_(?=\")", rb"\1", msgspec.json.encode(definitions))
    text = re.sub(rb"(\w+)\[~?(?:V|Any|Raw)\]", rb"\1", text)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The protocol of Tocsin",
        "version": VERSION,
        "$defs": dict(sorted(msgspec.json.decode(text).items())),
    }


def schema_text() -> str:
    return msgspec.json.format(msgspec.json.encode(schema()), indent=1).decode() + "\n"


def tables() -> str:
    """A section for each module, a table for each record."""
    definitions = schema()["$defs"]
    parts = []
    for module in MODULES:
        title = str(module.__doc__).split("\n\n")[0].replace("\n", " ")
        parts.append(f"### {title}\n")
        parts += [_table(kind, definitions[kind.__name__]) for kind in records(module)]
    return "\n".join(parts)


def _table(kind: type[Struct], definition: dict[str, Any]) -> str:
    about = " ".join(str(definition.get("description", "")).split())
    head = f"**`{kind.__name__}`** {about}".rstrip() + "\n\n"
    required = definition.get("required", [])
    rows = [
        f"| `{name}` | {_type(field)}{'' if name in required else ', optional'} |"
        f" {_about(field)} |\n"
        for name, field in definition.get("properties", {}).items()
    ]
    return head + (_HEAD + "".join(rows) if rows else "No fields.\n")


def _about(field: dict[str, Any]) -> str:
    choices = [field, *field.get("anyOf", [])]
    return next((str(part["description"]) for part in choices if "description" in part), "")


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        return f"`{str(field['$ref']).rpartition('/')[2]}`"
    if "enum" in field:
        return " or ".join(f'`"{value}"`' for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(_type(choice) for choice in field["anyOf"])
    kind = str(field.get("type", "any JSON"))
    if kind == "array" and isinstance(field.get("items"), dict):
        return f"array of {_type(field['items'])}"
    return kind


def page(text: str) -> str:
    """The page with its tables written anew."""
    before, _, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError(f"the page has no place for the records: {_BEGIN}{_END}")
    return f"{before}{_BEGIN}\n{tables()}\n{_END}{after}"


def write(directory: Path) -> None:
    (directory / SCHEMA).write_text(schema_text(), "utf-8")
    text = (directory / PAGE).read_text("utf-8")
    (directory / PAGE).write_text(page(text), "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference"))
