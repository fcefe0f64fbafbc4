"""Reads values digit by digit from the text of a JSON record, where Spark's parser would round or rewrite them.

Jackson makes a double of a number that becomes text, and of numbers within nested text. It drops commas of a decimal, and
computes the power of an exponent in full, however large that is.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, DecimalException
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.core.pipeline.columns import digits
from lockstep.core.text import is_utf8
from lockstep.formats.json.rest import fields_of
from lockstep.formats.values import taker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import Column

    from lockstep.core.pipeline.columns import Column as Declared

    Read = Callable[[str | None], tuple[str | None, ...]]

WRITTEN_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\Z", re.ASCII)
TEXT_OR_SPACE = re.compile(r'"(?:[^"\\]|\\.)*"|\s+', re.DOTALL)
PLAIN_WHOLE = r"^-?[0-9]{1,38}+\z"
PLAIN_FRACTION = r"^-?[0-9]{1,16}+\.[0-9]{1,17}+\z"
PLAIN_ZERO = r"^-?0*\.0*\z"
BEYOND_DOUBLE = r"[0-9.]{17}"  # so many may be more than a double holds
LONG_NUMBER = r"^\s*:\s*-?[0-9.]{17}"
TINY_POWER = "[eE]-"  # of an exponent that a double may not hold
HALF_PAIR = r"\\u[dD][89a-fA-F]"
# A text as Jackson writes a number with a fraction or an exponent, or what may have such numbers in it.
MAYBE_NUMBER = r'^(?s:-?[0-9][0-9.]*[.E].*|"?-?Infinity.*|[\[{].*[.EI].*)\z'
# Spark guesses more than these: a missing day or month, the day of a time alone, the unit of a number.
WRITTEN_MOMENTS = {
    "date": r"^[+-]?[0-9]{1,7}-[0-9]{1,2}-[0-9]{1,2}\z",
    "timestamp": r"^(?s:[+-]?[0-9]{1,7}-[0-9]{1,2}-[0-9]{1,2}(?:[T ].*)?)\z",
}
BELOW_MICROS = r"\.[0-9]{6}[0-9]*[1-9]"
ALL_DIGITS, SHORT_POWER = r"^[-+]?[0-9]+(?:\.[0-9]*)?\z", r"^[-+]?(?=.{1,20}\z)[0-9.]{1,15}[eE][-+]?[0-9]+\z"


def exact_cast(text: Column, type_: str) -> Column:
    """Returns a text as a value of this type, or null if the value would say anything else."""
    value = text.try_cast(type_)
    if type_ in WRITTEN_MOMENTS:
        return F.when(text.rlike(WRITTEN_MOMENTS[type_]) & ~text.rlike(BELOW_MICROS), value)
    if type_ in {"float", "double"}:
        return F.when(~F.isnan(value) & (F.abs(value) < F.lit(float("inf"))), value)
    if type_.startswith("decimal"):
        is_short = text.rlike(SHORT_POWER) & (value.cast("double") == text.try_cast("double"))
        return F.when((text.rlike(ALL_DIGITS) & ~loses_digits(text, type_)) | is_short, value)
    return value


def loses_digits(text: Column, type_: str) -> Column:
    """Returns True for digits, without an exponent, that are more behind the point than the decimal type has."""
    _, scale = digits(type_)
    return text.rlike(rf"\.[0-9]{{{scale}}}[0-9]*[1-9]")


def read_exactly(columns: Iterable[Declared]) -> tuple[Declared, ...]:
    """Returns the columns whose values may need to be read from the record's text."""
    return tuple(each for each in columns if each.type == "string" or each.type.startswith("decimal"))


def needs_literals(columns: Sequence[Declared]) -> Column:
    """Returns True for a record with a value that Spark's parser may have changed."""
    text, values = F.col("_text"), {column: F.col(f"_parsed.{column.name}") for column in columns}
    texts = [value for column, value in values.items() if column.type == "string"]
    doubts = [value.rlike(MAYBE_NUMBER) for value in texts]
    for column, value in values.items():
        if column.type != "string":
            is_rounded = _is_long(text, column.name) | (value.rlike(PLAIN_ZERO) & text.rlike(TINY_POWER))
            doubts.append(~(value.rlike(PLAIN_WHOLE) | (value.rlike(PLAIN_FRACTION) & ~is_rounded)))
    if texts:
        replaced = _any(F.contains(value, F.lit("?")) for value in texts)
        doubts.append(F.contains(text, F.lit("\\u")) & replaced & text.rlike(HALF_PAIR))
    return _any(doubts)


def _any(answers: Iterable[Column]) -> Column:
    """Returns True if one of them is, and False for null."""
    return reduce(or_, [F.coalesce(each, F.lit(False)) for each in answers], F.lit(False))  # noqa: FBT003 - a literal


def _is_long(text: Column, name: str) -> Column:
    """Returns True for a record whose number of this name may have more digits than a double holds.

    Looks behind the name where it stands once. A search through all of the text takes twice as long.
    """
    named = f'"{name}"'
    before, behind = F.substring_index(text, named, 1), F.substring_index(text, named, -1)
    size = F.octet_length(before) + len(named.encode()) + F.octet_length(behind)
    is_plain = (size == F.octet_length(text)) & ~F.contains(text, F.lit("\\"))
    return F.when(is_plain, behind.rlike(LONG_NUMBER)).otherwise(text.rlike(BEYOND_DOUBLE))


def literals(columns: Sequence[Declared], texts: Column) -> Column:
    """Returns, for texts of records, a struct of a fault and the values of these columns as text. Null for no text.

    Few records have a text here, and Python looks at those alone. PySpark 4.0 calls it for each record.
    """
    types = ", ".join(["fault string", *(f"`{column.name}_` string" for column in columns)])
    read = reader(columns)
    found: Column
    if not hasattr(F, "arrow_udf"):
        found = F.udf(read, types, useArrow=True)(texts)
        return found
    fields = pa.struct([("fault", pa.string()), *((f"{column.name}_", pa.string()) for column in columns)])

    def of_all(texts: pa.Array) -> pa.Array:
        if texts.null_count == len(texts):
            return pa.nulls(len(texts), fields)
        names = [field.name for field in fields]
        rows = (None if text is None else dict(zip(names, read(text), strict=True)) for text in texts.to_pylist())
        return pa.array(rows, fields, size=len(texts))

    found = F.arrow_udf(of_all, types)(texts)
    return found


def reader(columns: Sequence[Declared]) -> Read:
    """Returns a function from a record's text to a fault, or null, and its values of these columns as text."""
    read = [(column.name, _text if column.type == "string" else _decimal(column)) for column in columns]
    nothing = (None,) * (1 + len(columns))

    def read_text(text: str | None) -> tuple[str | None, ...]:
        if text is None:
            return nothing
        try:
            found = {name: value for name, _, value in fields_of(text)}
        except (ValueError, IndexError, RecursionError):
            return ("not a JSON object", *nothing[1:])
        values: list[str | None] = []
        for name, take in read:
            literal = found.get(name, "null")
            try:
                values.append(None if literal == "null" else take(literal))
            except ValueError as error:
                said = str(error)
                return (said if said.startswith("column ") else f"column {name}: {said}", *nothing[1:])
        return (None, *values)

    return read_text


def _decimal(column: Declared) -> Callable[[str], str]:
    """Returns a function from a number, or a text of digits, to all digits of the column's value."""
    take = taker(column)

    def decimal(literal: str) -> str:
        text = json.loads(literal) if literal.startswith('"') else literal
        if not WRITTEN_NUMBER.match(text):
            raise ValueError(f"not a {column.type}")
        try:
            return f"{take(Decimal(text)):f}"
        except DecimalException:
            raise ValueError(f"does not fit {column.type}") from None

    return decimal


def _text(literal: str) -> str:
    """Returns a text, or any other value as the producer wrote it, without spaces between its parts."""
    if literal.startswith('"'):
        return _whole(json.loads(literal))
    return _whole(TEXT_OR_SPACE.sub(_compact, literal))


def _compact(found: re.Match[str]) -> str:
    token = found[0]
    if token[0] != '"':
        return ""
    if "\\" not in token:
        return token
    plain: Any = json.dumps(json.loads(token), ensure_ascii=False)
    return plain if is_utf8(plain) else token


def _whole(text: str) -> str:
    if not is_utf8(text):
        raise ValueError("holds half a surrogate pair, which is no text")
    return text
