"""The OpenAPI description of a list of routes, and a page that shows it without any download."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from tocsin import __version__
from tocsin.errors import (
    Forbidden,
    InvalidInput,
    NotFound,
    TocsinError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UpgradeRequired,
)
from tocsin.protocol.failure import ErrorBody
from tocsin.protocol.version import HEADER, PARAMETER, VERSION

if TYPE_CHECKING:
    from tocsin.service.web import Route

REFERENCE = "#/components/schemas/{name}"


class Media(Struct, frozen=True):
    """A body that is not one JSON value: `of` is what each line or event of it holds."""

    media_type: str
    of: Any = None


JSON = "application/json"
TOKEN_PARAMETER = "token"  # of a query, where no header can be set

_SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "token_in_query": {"type": "apiKey", "in": "query", "name": TOKEN_PARAMETER},
}
_VERSION = {
    "version": {
        "name": HEADER,
        "in": "header",
        "description": "the version of the protocol that the caller speaks",
        "schema": {"type": "integer", "minimum": 1},
    },
    "version_in_query": {
        "name": PARAMETER,
        "in": "query",
        "description": f"the same, where the header {HEADER} cannot be set",
        "schema": {"type": "integer", "minimum": 1},
    },
}


def describe(title: str, routes: Sequence[Route]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    schemas = _Schemas(routes)
    paths: dict[str, Any] = {}
    for route in routes:
        path = re.sub(r"{(\w+):\w+}", r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__, "x-protocol-version": VERSION},
        "servers": [{"url": "."}],  # beside this description, wherever a proxy put it
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "parameters": _VERSION,
            "securitySchemes": _SECURITY,
        },
    }


class _Schemas:
    """The schemas of all records that the routes name."""

    def __init__(self, routes: Sequence[Route]) -> None:
        kinds: list[Any] = [ErrorBody]
        for route in routes:
            kinds += [route.takes, route.answers, *route.also.values()]
        records = [kind.of if isinstance(kind, Media) else kind for kind in kinds]
        self._kinds = [record for record in records if record is not None]
        self._schemas, self.components = msgspec.json.schema_components(
            self._kinds, ref_template=REFERENCE
        )

    def content(self, kind: Any) -> dict[str, Any]:
        """What a request or an answer holds."""
        if isinstance(kind, Media):
            schema = {} if kind.of is None else {"schema": self._of(kind.of)}
            return {kind.media_type: schema}
        return {JSON: {"schema": self._of(kind)}}

    def _of(self, record: Any) -> dict[str, Any]:
        return self._schemas[self._kinds.index(record)]


def _operation(route: Route, schemas: _Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "parameters": _parameters(route),
        "responses": _responses(route, schemas),
    }
    if route.scopes is not None:
        schemes = _SECURITY if route.token_in_query else ("token",)
        operation["security"] = [{scheme: list(route.scopes)} for scheme in schemes]
    if route.takes is not None:
        operation["requestBody"] = {"content": schemas.content(route.takes)}
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer" if kind == "int" else "string"},
        }
        for name, kind in re.findall(r"{(\w+):?(\w*)}", route.path)
    ]
    if route.query is not None:
        _, definitions = msgspec.json.schema_components([route.query])
        for name, schema in definitions[route.query.__name__]["properties"].items():
            about = {"description": schema.pop("description", "")}
            parameters.append({"name": name, "in": "query", "schema": schema} | about)
    if not route.unchecked:
        parameters += [{"$ref": f"#/components/parameters/{name}"} for name in _VERSION]
    return parameters


def _responses(route: Route, schemas: _Schemas) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, kind in {route.status: route.answers, **route.also}.items():
        responses[str(status)] = {"description": "done"}
        if kind is not None:
            responses[str(status)]["content"] = schemas.content(kind)
    codes: dict[int, list[str]] = {}
    for error in _errors(route):
        codes.setdefault(error.status, []).append(error.code)
    for status, names in sorted(codes.items()):
        content = schemas.content(ErrorBody)
        kinds = " or ".join(sorted(names))
        known = responses.get(str(status))
        if known is None:
            responses[str(status)] = {"description": kinds, "content": content}
        else:  # a status that tells of errors and of something else
            schema = known["content"][JSON]["schema"]
            known["description"] += f", or {kinds}"
            known["content"][JSON] = {"schema": {"anyOf": [schema, content[JSON]["schema"]]}}
    return responses


def _errors(route: Route) -> set[type[TocsinError]]:
    """What a call may be refused with."""
    if route.unchecked:
        return set()
    errors: set[type[TocsinError]] = {InvalidInput, UpgradeRequired, Unavailable, TocsinError}
    errors.update(route.errors)
    if route.scopes is not None:
        errors |= {Unauthenticated, Forbidden}
    if route.takes is not None:
        errors.add(TooLarge)
    if "{" in route.path:
        errors.add(NotFound)
    return errors


def page(title: str, routes: Sequence[Route]) -> str:
    """A plain page: one row a route. The machine-readable form is at /openapi.json."""
    rows = "".join(
        f"<tr><td><b>{route.method}</b></td><td><code>{html.escape(route.path)}</code></td>"
        f"<td>{html.escape(_who(route))}</td><td>{html.escape(route.summary)}</td></tr>"
        for route in routes
    )
    style = (
        "body{font:16px system-ui;margin:2rem auto;max-width:60rem;padding:0 1rem}"
        "td,th{text-align:left;padding:.4rem .8rem;border-bottom:1px solid #ddd;vertical-align:top}"
    )
    name = html.escape(title)
    return (
        f"<!doctype html><meta charset=utf-8><title>{name}</title><style>{style}</style>"
        f"<h1>{name}</h1><p>Machine-readable: <a href=openapi.json>openapi.json</a>. "
        "Every call but the open ones needs <code>Authorization: Bearer TOKEN</code>.</p>"
        f"<table><tr><th></th><th>path</th><th>scope</th><th></th></tr>{rows}</table>"
    )


def _who(route: Route) -> str:
    if route.scopes is None:
        return "open"
    return " or ".join(route.scopes) or "any token"
