"""What an older peer could not read: one schema of the records compared with another."""

from __future__ import annotations

from typing import Any

WORDS_ONLY = ("description", "title", "default", "examples")


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Every change for which the protocol's version must be raised, a line each."""
    found = []
    for name, record in before["$defs"].items():
        if name not in now["$defs"]:
            found.append(f"{name} is gone")
        else:
            found += _differences(name, record, now["$defs"][name])
    return found


def _differences(name: str, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    found = []
    fields, fields_now = before.get("properties", {}), now.get("properties", {})
    for field, kind in fields.items():
        if field not in fields_now:
            found.append(f"{name}.{field} is gone, or has another name")
        elif _meaning(kind) != _meaning(fields_now[field]):
            found.append(f"{name}.{field} has another type")
    required, required_now = set(before.get("required", ())), set(now.get("required", ()))
    kept = fields.keys() & fields_now.keys()
    found += [
        f"{name}.{field} is required, and older peers do not send it"
        for field in sorted(required_now - required)
    ]
    found += [
        f"{name}.{field} is no longer required, and older peers rely on it"
        for field in sorted((required - required_now) & kept)
    ]
    if before.get("additionalProperties") is False:
        found += [
            f"{name}.{field} is new, and older peers refuse what they do not know"
            for field in sorted(fields_now.keys() - fields.keys())
        ]
    return found


def _meaning(schema: Any) -> Any:
    """Without what is for people."""
    if isinstance(schema, dict):
        return {key: _meaning(value) for key, value in schema.items() if key not in WORDS_ONLY}
    if isinstance(schema, list):
        return [_meaning(value) for value in schema]
    return schema
