"""The OpenAPI description of a list of routes, and a page that shows it without any download."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin import __version__

if TYPE_CHECKING:
    from tocsin.service.web import Route

REFERENCE = "#/components/schemas/{name}"


def describe(title: str, routes: Sequence[Route]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    kinds = [kind for route in routes for kind in (route.takes, route.answers) if kind is not None]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    of = iter(schemas)
    paths: dict[str, Any] = {}
    for route in routes:
        operation: dict[str, Any] = {
            "summary": route.summary,
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in re.findall(r"{(\w+)", route.path)
            ],
        }
        if route.scopes is not None:
            operation["security"] = [{"token": list(route.scopes)}]
        if route.takes is not None:
            operation["requestBody"] = {"content": {"application/json": {"schema": next(of)}}}
        answer: dict[str, Any] = {"description": "done"}
        if route.answers is not None:
            answer["content"] = {"application/json": {"schema": next(of)}}
        operation["responses"] = {str(route.status): answer, "default": {"description": "an error"}}
        path = re.sub(r"{(\w+):\w+}", r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = operation
    security = {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": security},
    }


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
        f"<h1>{name}</h1><p>Machine-readable: <a href=/openapi.json>/openapi.json</a>. "
        "Every call but the open ones needs <code>Authorization: Bearer TOKEN</code>.</p>"
        f"<table><tr><th></th><th>path</th><th>scope</th><th></th></tr>{rows}</table>"
    )


def _who(route: Route) -> str:
    if route.scopes is None:
        return "open"
    return " or ".join(route.scopes) or "any token"
