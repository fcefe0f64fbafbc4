"""Decodes JSON with Spark, one object per record.

A record that is no such object, or would lose a digit, is a reject.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.core.formats.registered import HEAD_BYTES, MAGIC
from lockstep.core.pipeline.columns import NUL, NUL_REASON
from lockstep.core.records import PASSING
from lockstep.formats.json import BODY, HEAD_FAULT, PLAIN_KEY
from lockstep.formats.json.literals import (
    BELOW_MICROS,
    WRITTEN_MOMENTS,
    literals,
    loses_digits,
    needs_literals,
    read_exactly,
)
from lockstep.formats.json.rest import gatherer
from lockstep.formats.tombstones import key_as, why_no_key

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lockstep.core.pipeline.columns import Column as Declared
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.formats import Json
    from lockstep.core.registry import Registry

CORRUPT = "$corrupt"  # as no column of a definition is called
HEADED = "begins with the head of a registry's schema, not with JSON: Json(..., registry=True) reads such records"
OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    "allowNonNumericNumbers": "false",
    "allowSingleQuotes": "false",
}
NAME_LENGTH = 100  # as much of a field's name as a reason repeats
FIRST_MOMENT, LAST_MOMENT = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"


def decoded(records: DataFrame, pipeline: Pipeline, format_: Json, registry: Registry | None = None) -> DataFrame:
    """Adds the declared columns, `_deleted` and `_reason` to raw records (`_key`, `_value`). A reject has only nulls.

    Parses decimals and moments as text and then judges them. A digit too many is a reject and never a rounding. With a
    registry, the JSON is what follows the head of each value.
    """
    schema = ", ".join(f"`{c.name}` {_parsed_type(c)}" for c in format_.declared)
    body = "_value"
    if format_.registry:
        from lockstep.formats.json.heads import without_heads  # noqa: PLC0415 - the registry's client is slow to import

        records, body = without_heads(records, pipeline, format_, registry), BODY
    raw = records.withColumn("_text", F.col(body).cast("string"))
    raw = raw.withColumn("_parsed", F.from_json("_text", f"{schema}, `{CORRUPT}` string", OPTIONS))
    if exact := read_exactly(format_.declared):
        raw = raw.withColumn("_doubt", needs_literals(exact))
        valid = F.when(F.col("_doubt") & F.is_valid_utf8("_text"), F.col("_text"))
        raw = raw.withColumn("_literals", literals(exact, valid))
    if format_.rest is not None:
        gather = gatherer(frozenset(column.name for column in format_.declared))
        valid = F.when(F.is_valid_utf8("_text"), F.col("_text"))
        raw = raw.withColumn("_gathered", F.udf(gather, "text string, fault string", useArrow=True)(valid))
    deleted = F.col("_value").isNull() if pipeline.takes_tombstones else F.lit(False)  # noqa: FBT003 - a literal
    # Each a column of its own, so that Spark casts a text once and not wherever a reason or a value needs it.
    if casts := {_cast(column): _made(column) for column in format_.declared if _is_cast(column)}:
        raw = raw.withColumns(casts)  # a Connect client takes no empty list
    judged = raw.withColumn("_deleted", deleted).withColumn("_reason", _reason(pipeline, format_))
    values = [_value(c, pipeline, format_).alias(c.name) for c in format_.columns]
    passing = PASSING | set(map(_cast, format_.declared))
    return judged.select(*[F.col(name) for name in judged.columns if name not in passing], *values)


def _reason(pipeline: Pipeline, format_: Json) -> Column:
    text = F.col("_text")
    live = F.when(text.isNull(), F.lit("null value"))
    if not format_.registry:
        live = live.when(
            F.startswith(F.col("_value"), F.lit(MAGIC)) & (F.length("_value") >= HEAD_BYTES), F.lit(HEADED)
        )
    live = live.when(~F.is_valid_utf8(text), F.lit("not valid UTF-8"))
    live = live.when(F.col("_parsed").isNull() | F.col(f"_parsed.{CORRUPT}").isNotNull(), _why_corrupt(format_))
    live = live.when(~_ends_once(text), F.lit("not one JSON object: something follows it"))
    if read_exactly(format_.declared):
        live = live.when(F.col("_literals.fault").isNotNull(), F.col("_literals.fault"))
    for column in format_.declared:
        for bad, reason in _misfits(column):
            live = live.when(bad, F.lit(f"column {column.name}: {reason}"))
    for bad, why in _other_fields(format_):
        live = live.when(bad, why)
    its_key = PLAIN_KEY if format_.registry else "_key"
    whole = F.when(F.col("_deleted"), why_no_key(pipeline, its_key)).otherwise(live)
    return F.coalesce(F.col(HEAD_FAULT), whole) if format_.registry else whole


def _other_fields(format_: Json) -> list[tuple[Column, Column]]:
    """Returns the faults of a strict schema's fields, and of a rest that cannot be stored, with their reasons."""
    if format_.rest is not None:
        fault = F.col("_gathered.fault")
        return [(fault.isNotNull(), F.concat(F.lit(f"column {format_.rest}: "), fault))]
    if not format_.strict:
        return []
    fields, declared = F.json_object_keys("_text"), F.array(*[F.lit(column.name) for column in format_.declared])
    faults = []
    for odd, what in (
        (F.array_except(fields, declared), "not in the schema"),
        (F.array_except(declared, fields), "missing"),
    ):
        name = F.substring(F.regexp_replace(F.element_at(odd, 1), r"\p{Cntrl}", "?"), 1, NAME_LENGTH)
        faults.append((F.size(odd) > 0, F.concat(F.lit("column "), name, F.lit(f": {what}"))))
    return faults


def _why_corrupt(format_: Json) -> Column:
    """Names the first column whose value is not of its type. Runs for rejects only, so it may be slow."""
    text = F.col("_text")

    def alone(schema: str) -> Column:
        return F.from_json(text, f"{schema}, `{CORRUPT}` string", OPTIONS)[CORRUPT]

    no_object = F.from_json(text, f"`{CORRUPT}` string", OPTIONS)
    reason = F.when(no_object.isNull() | no_object[CORRUPT].isNotNull(), F.lit("not a JSON object"))
    for column in format_.declared:
        wrong = alone(f"`{column.name}` {_parsed_type(column)}").isNotNull()
        reason = reason.when(wrong, F.lit(f"column {column.name}: not a {column.type}"))
    return reason.otherwise(F.lit("not a JSON object"))


def _ends_once(text: Column) -> Column:
    """Returns True if one object is the whole text.

    It is if the first closing brace is the last character, or if the text is one element before ours. Our own is
    random: a text that closes our brackets early cannot know what must follow.
    """
    size, before = F.octet_length(text), F.octet_length(F.substring_index(text, "}", 1))
    own = secrets.token_hex(8)
    wrapped = F.concat(F.lit("["), text, F.lit(f', "{own}"]'))
    alone = F.json_array_length(wrapped).eqNullSafe(F.lit(2)) & F.get_json_object(wrapped, "$[1]").eqNullSafe(
        F.lit(own)
    )
    return (F.endswith(text, F.lit("}")) & (before == size - 1)) | alone


def _misfits(column: Declared) -> list[tuple[Column, str]]:
    value = F.col(f"_parsed.{column.name}")
    if column.type == "string":
        return [(F.contains(value, F.lit(NUL)), NUL_REASON)]
    if column.type.startswith("decimal"):
        lost = F.col(_cast(column)).isNull() | loses_digits(value, column.type)
        return [(value.isNotNull() & ~F.col("_doubt") & lost, f"does not fit {column.type}")]
    if column.type in {"float", "double"}:
        infinite = F.isnan(value) | (F.abs(value) == F.lit(float("inf")))
        return [(infinite, "not a finite number")]
    if column.type in {"date", "timestamp"}:
        cast = F.col(_cast(column))
        limits = F.lit(FIRST_MOMENT).cast("timestamp"), F.lit(LAST_MOMENT).cast("timestamp")
        is_none = value.isNotNull() & (cast.isNull() | ~value.rlike(WRITTEN_MOMENTS[column.type]))
        return [
            (is_none, f"not a {column.type}"),
            (value.rlike(BELOW_MICROS), "has digits below the microsecond, which a timestamp would lose"),
            (~cast.cast("timestamp").between(*limits), "outside the years 1 to 9999"),
        ]
    return []


def _value(column: Declared, pipeline: Pipeline, format_: Json) -> Column:
    if column.name == format_.rest:
        parsed = F.col("_gathered.text")
    else:
        parsed = F.col(_cast(column)) if _is_cast(column) else _made(column)
    if column.name == format_.key and pipeline.takes_tombstones:
        parsed = F.when(F.col("_deleted"), key_as(column.type, PLAIN_KEY if format_.registry else "_key")).otherwise(
            parsed
        )
    return F.when(F.col("_reason").isNull(), parsed)


def _made(column: Declared) -> Column:
    """Returns the column's value, cast from text where Spark's parser has left it as text."""
    parsed = F.col(f"_parsed.{column.name}")
    if read_exactly((column,)):
        parsed = F.when(F.col("_doubt"), F.col(f"_literals.{column.name}_")).otherwise(parsed)
    return parsed.try_cast(column.type)


def _cast(column: Declared) -> str:
    """Returns the name of a column's value before it is judged, which no column of a definition has."""
    return f"${column.name}"


def _is_cast(column: Declared) -> bool:
    return column.type in WRITTEN_MOMENTS or column.type.startswith("decimal")


def _parsed_type(column: Declared) -> str:
    """Returns the type by which Spark's parser reads the column. It is text where the parser would guess, cut or round."""
    return "string" if _is_cast(column) else column.type
