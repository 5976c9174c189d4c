"""Conditions bound to the columns of a dataset: a filter in canonical form, or what is wrong."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NoReturn

from tocsin.errors import Forbidden, InvalidInput, StatementError
from tocsin.model import Dataset
from tocsin.overlay.filters import Constraint, Filter, Near, both, conjunction, tidied
from tocsin.overlay.filters.keys import end_of_prefix
from tocsin.overlay.filters.ranges import Ranges
from tocsin.sql.claims import Claims, claim_of
from tocsin.sql.coercion import coerce
from tocsin.sql.domains import Domain, domain_of
from tocsin.sql.filters import Condition, Pattern, Value, read_conditions
from tocsin.sql.tokens import Reader

MOST_CHARACTERS = 64 * 1024
_NUMERIC = {"whole", "double", "single", "decimal"}
_SPHERE = {"latitude": 90.0, "longitude": 360.0}


def parse_filter(text: str, dataset: Dataset) -> Filter:
    """The filter that a text is. An empty one lets every record pass."""
    if len(text) > MOST_CHARACTERS:
        raise StatementError(f"a filter has at most {MOST_CHARACTERS} characters", field="where")
    reader = Reader(text)
    conditions = read_conditions(reader) if reader.token is not None else ()
    if reader.token is not None:
        reader.fail("AND or the end of the filter")
    return bind_filter(conditions, dataset)


def bind_filter(conditions: tuple[Condition, ...], dataset: Dataset) -> Filter:
    domains = {column.name.lower(): domain_of(column) for column in dataset.columns}
    by_column: dict[str, Constraint] = {}
    nears: list[Near] = []
    for condition in conditions:
        if condition.operator == "NEAR":
            near, constraints = _near(condition, domains, dataset)
            nears.append(near)
        else:
            domain = _domain(condition, condition.name, domains, dataset)
            constraints = [_constraint(condition, domain)]
        for constraint in constraints:
            column, known = constraint.column, by_column.get(constraint.column)
            together = tidied(constraint) if known is None else both(known, constraint)
            if together is None:
                _fail(
                    condition,
                    f"no {column!r} is all that is asked of it: nothing could match",
                    field=column,
                )
            by_column[column] = together
    bound = conjunction(dataset.name, by_column.values(), nears)
    assert bound is not None
    return bound


def bind_claims(filter_: Filter, dataset: Dataset, claims: Claims | None) -> Filter:
    """The filter, joined with what the dataset's bound columns must be for whoever asks. `claims`
    are those of the subscriber's token; None: nobody showed one."""
    domains = {column.name: domain_of(column) for column in dataset.columns}
    constraints = {constraint.column: constraint for constraint in filter_.constraints}
    for bound in dataset.bound:
        if claims is None:
            raise Forbidden(
                f"filters on dataset {dataset.name!r} are bound to the claim {bound.claim!r} of"
                " the subscriber's token, and this call has none of theirs",
                field=bound.column,
                hint="subscribers ask with their own token; who asks for them passes it on",
            )
        domain = domains[bound.column]
        value = claim_of(claims, bound.claim, domain.type, bound.column)
        own = domain.constraint(ranges=domain.among([domain.key(value)]))
        asked = constraints.get(bound.column)
        joined = own if asked is None else both(asked, own)
        if joined is None:
            raise InvalidInput(
                f"column {bound.column!r} is bound to the claim {bound.claim!r} of the subscriber's"
                " token: the filter asks for records of others",
                field=bound.column,
                hint=f"leave {bound.column} out",
            )
        constraints[bound.column] = joined
    whole = conjunction(dataset.name, constraints.values(), filter_.nears)
    assert whole is not None
    return whole


def _domain(
    at: Condition | Value, name: str, domains: dict[str, Domain], dataset: Dataset
) -> Domain:
    domain = domains.get(name.lower())
    if domain is None:
        _fail(
            at,
            f"dataset {dataset.name!r} has no column {name!r}",
            field=name,
            hint=f"its columns are {', '.join(domain.column for domain in domains.values())}",
        )
    return domain


def _constraint(condition: Condition, domain: Domain) -> Constraint:
    operator = condition.operator
    if operator == "IS NULL":
        return domain.constraint(null=True)
    if operator == "IS NOT NULL":
        return domain.constraint()
    if domain.kind == "other":
        _fail(
            condition,
            f"{domain.column!r} is {domain.type}, which is not compared",
            field=domain.column,
            hint="IS NULL and IS NOT NULL can be asked of it",
        )
    if operator == "LIKE":
        return _like(condition, domain)
    ranges = _ranges(operator, domain, [_key(value, domain) for value in condition.values])
    if not ranges:
        _fail(condition, f"no {domain.type} is that: nothing could match", field=domain.column)
    return domain.constraint(ranges=ranges)


def _ranges(operator: str, domain: Domain, keys: list[Any]) -> Ranges:
    match operator:
        case "=" | "IN":
            return domain.among(keys)
        case "<>":
            return domain.except_(keys[0])
        case "BETWEEN":
            return domain.between(keys[0], keys[1])
        case "<":
            return domain.below(keys[0])
        case "<=":
            return domain.between(None, keys[0])
        case ">":
            return domain.above(keys[0])
        case _:
            return domain.between(keys[0], None)


def _key(given: Value, domain: Domain) -> Any:
    try:
        return domain.key(coerce(given.value, domain.type))
    except ValueError as error:
        _fail(given, f"{domain.column!r}: {error}", field=domain.column)


def _like(condition: Condition, domain: Domain) -> Constraint:
    pattern: Pattern = condition.values[0].value
    if domain.kind != "text":
        _fail(
            condition,
            f"{domain.column!r} is {domain.type}: LIKE is for STRING",
            field=domain.column,
        )
    text = pattern.text
    if pattern.before and pattern.after:
        return domain.constraint(contains=(text,) if text else ())
    if pattern.before:
        return domain.constraint(suffix=text)
    if pattern.after:
        return domain.constraint(ranges=((text, end_of_prefix(text)),))
    return domain.constraint(ranges=domain.among([text]))


def _near(
    condition: Condition, domains: dict[str, Domain], dataset: Dataset
) -> tuple[Near, list[Constraint]]:
    columns = [_domain(value, value.value, domains, dataset) for value in condition.values[:2]]
    for value, domain in zip(condition.values, columns, strict=False):
        if domain.kind not in _NUMERIC:
            _fail(
                value, f"{domain.column!r} is {domain.type}: not a coordinate", field=domain.column
            )
    numbers = []
    for value in condition.values[2:]:
        if isinstance(value.value, bool) or not isinstance(value.value, int | float | Decimal):
            _fail(value, f"expected a number, got {value.value!r}", field="near")
        numbers.append(float(value.value) + 0.0)  # -0.0 is 0.0
    for value, (what, most) in zip(condition.values[2:], _SPHERE.items(), strict=False):
        if not abs(value.value) <= most:
            _fail(
                value,
                f"{value.value} is no {what}",
                field="near",
                hint=f"degrees from -{most:g} to {most:g}; latitude comes first",
            )
    if not 0 <= numbers[2] < float("inf"):
        _fail(condition.values[4], "a distance is 0 km or more", field="near")
    near = Near(columns[0].column, columns[1].column, *numbers)
    return near, [domain.constraint() for domain in columns]


def _fail(
    at: Condition | Value, message: str, *, field: str | None = None, hint: str | None = None
) -> NoReturn:
    raise StatementError(message, line=at.line, column=at.column, field=field, hint=hint)
