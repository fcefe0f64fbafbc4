"""Checks JSON by a JSON Schema of the registry, without any other source, in a bounded time."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urljoin

from jsonschema import (
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
    validators,
)
from jsonschema_specifications import REGISTRY as SPECIFICATIONS
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from lockstep.formats.avro.bounds import nesting
from lockstep.formats.avro.schemas import UnknownSchema
from lockstep.formats.json.keywords import BOUNDED, CheckBudget, is_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.core.pipeline.limits import RecordLimits

DIALECTS = (Draft4Validator, Draft6Validator, Draft7Validator, Draft201909Validator, Draft202012Validator)
USUAL = Draft7Validator  # of a schema that names none, as the registry itself takes it
SCHEMA_LEVELS = 4  # levels of a schema's JSON in one of its records, at most
MOST_CHECKED_DIGITS = 1_000  # of a number
TOGETHER = ("unevaluatedProperties", "patternProperties")  # the package looks for such patterns without a bound
MOST_SCHEMA_CHECKS = 1_000_000
SHOWN_DEMAND = 80  # characters of what a keyword demands in a reason


class JsonContract:
    """The demands of one schema id on its records."""

    def __init__(self, schema_id: int, validator: Any, budget: CheckBudget, depth: int) -> None:
        self._schema_id, self._validator, self._budget, self._depth = schema_id, validator, budget, depth

    def require(self, body: bytes) -> None:
        """Raises `ValueError` with the reason unless the schema allows the record."""
        document = _document(body)
        if nesting(document) > self._depth:
            raise ValueError(f"is nested deeper than {self._depth} (record_limits.depth)")
        self._budget.renew()
        try:
            error = next(self._validator.iter_errors(document), None)
        except ValueError as fault:
            raise ValueError(f"cannot be checked by schema id {self._schema_id}: it {fault}") from None
        except Unresolvable as fault:
            raise ValueError(
                f"cannot be checked by schema id {self._schema_id}: the registry names no {fault.ref} for it"
            ) from None
        except Exception as fault:  # noqa: BLE001 - odd schemas make the validator raise whatever it stumbles over
            raise ValueError(f"cannot be checked by schema id {self._schema_id}: {type(fault).__name__}") from None
        if error is not None:
            raise ValueError(f"{_place(error)}: {_demand(error)}, says schema id {self._schema_id}")


def contract(schema_id: int, text: str, references: Mapping[str, str], limits: RecordLimits) -> JsonContract:
    """Returns what a schema and its references demand. Raises `UnknownSchema` if nothing can be checked by them."""
    budget = CheckBudget(limits.values)
    try:
        validator = _validator(text, references, limits, budget)
    except Exception as error:  # noqa: BLE001 - what is no schema raises many kinds
        told = getattr(error, "message", str(error)) or type(error).__name__
        raise UnknownSchema(f"schema id {schema_id} cannot be read: {told}") from None
    return JsonContract(schema_id, validator, budget, limits.depth)


def _validator(text: str, references: Mapping[str, str], limits: RecordLimits, budget: CheckBudget) -> Any:
    schema = _schema(text, limits)
    dialect: Any = USUAL
    if isinstance(schema, dict) and "$schema" in schema:
        named = schema["$schema"]
        dialect = validators.validator_for({"$schema": named}, default=None) if isinstance(named, str) else None
    if dialect not in DIALECTS:
        raise ValueError("its $schema is none of draft-04, -06, -07, 2019-09 and 2020-12")
    others = {name: _schema(each, limits) for name, each in references.items()}
    for each in (schema, *others.values()):
        _require_schema(dialect, each)
    if all(any(f'"{word}"' in each for each in (text, *references.values())) for word in TOGETHER):
        raise ValueError(f"{' beside '.join(TOGETHER)} is not checked here")
    return _bounded(dialect, budget)(schema, registry=_known(schema, others, dialect))


def _require_schema(dialect: Any, schema: Any) -> None:
    """Raises `ValueError` unless the dialect's own schema allows this one. It is checked as a record is."""
    budget = CheckBudget(MOST_SCHEMA_CHECKS, "of a schema")
    whole = _bounded(dialect, budget)(dialect.META_SCHEMA, registry=SPECIFICATIONS)
    error = next(whole.iter_errors(schema), None)
    if error is not None:
        raise ValueError(f"{_place(error, 'the schema')}: {error.message[:SHOWN_DEMAND]}")


def _bounded(dialect: Any, budget: CheckBudget) -> Any:
    """Returns the dialect's validator with exact and counted keywords, for every schema that it leads to."""
    keywords = {**dialect.VALIDATORS, **{name: each for name, each in BOUNDED.items() if name in dialect.VALIDATORS}}
    types = dialect.TYPE_CHECKER
    if dialect is not Draft4Validator:
        types = types.redefine("integer", is_whole)
    made: Any = validators.extend(
        dialect, {name: budget.bounded(each) for name, each in keywords.items()}, type_checker=types
    )

    def evolve(self: Any, **changes: Any) -> Any:
        # The package's own would leave this class where a schema names its dialect.
        given = {"schema": self.schema, "registry": self._registry, "resolver": None, "_resolver": self._resolver}
        return made(**{**given, **changes})

    made.evolve = evolve
    return made


def _known(schema: Any, others: Mapping[str, Any], dialect: Any) -> Registry[Any]:
    """Returns the references by name, alone and relative to the schema that names them. Nothing else can be found."""
    specification = specification_with(dialect.META_SCHEMA["$schema"])
    base = str(dialect.ID_OF(schema) or "")
    resources = [(name, specification.create_resource(each)) for name, each in others.items()]
    known: Registry[Any] = Registry()
    return known.with_resources([*resources, *((urljoin(base, name), each) for name, each in resources)])


def _schema(text: str, limits: RecordLimits) -> Any:
    try:
        document = json.loads(text, parse_float=_plain_number, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at character {error.pos}") from None
    if nesting(document) > SCHEMA_LEVELS * limits.depth:
        raise ValueError(f"it is nested deeper than {limits.depth} records, which is the limit")
    if not isinstance(document, dict | bool):
        raise ValueError("it is no object")  # noqa: TRY004 - a reason
    return document


def _document(body: bytes) -> Any:
    """Returns a record's JSON, its numbers to the last digit. Raises `ValueError` with the reason if it is none."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise ValueError("not valid UTF-8") from None
    try:
        return json.loads(
            text, parse_float=_fraction, parse_int=_whole, parse_constant=_no_number, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ValueError("is nested too deep") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object. Parsers disagree over a name that stands twice, so one could be checked and another read."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a field stands twice in one object")
    return made


def _whole(text: str) -> int:
    if len(text) > MOST_CHECKED_DIGITS:
        raise ValueError(f"a number has more than {MOST_CHECKED_DIGITS} digits")
    return int(text)


def _fraction(text: str) -> Decimal:
    if len(text) > MOST_CHECKED_DIGITS:
        raise ValueError(f"a number has more than {MOST_CHECKED_DIGITS} digits")
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError("a number is too large or too small to be checked") from None


def _plain_number(text: str) -> int | Decimal:
    """Returns a number of a schema. The metaschema knows 2.0 as whole only in this form."""
    number = _fraction(text)
    return int(number) if number == number.to_integral_value() and number.adjusted() < MOST_CHECKED_DIGITS else number


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"not JSON: {text}")


def _place(error: Any, whole: str = "the record") -> str:
    return "field " + "/".join(map(str, error.absolute_path)) if error.absolute_path else whole


def _demand(error: Any) -> str:
    """Returns what the record breaks, without its values."""
    match error.validator:
        case "required" | "dependentRequired":
            return str(error.message)  # it names a field of the schema
        case str() as keyword if keyword != "additionalProperties":
            demanded = json.dumps(error.validator_value, default=float)
            return f"breaks {keyword}" + (f" {demanded}" if len(demanded) <= SHOWN_DEMAND else "")
    return "not allowed"
