"""Runs a pipeline over records in a test, without Kafka: `from lockstep.testing import Record, tried`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lockstep.adapters import folders
from lockstep.core.changes.tried import Deletion, Expectation, Record, Reject, Row, Tried, Verdict
from lockstep.core.changes.tried import SupersededRow as Superseded
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.formats import registered_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Deletion", "Expectation", "Record", "Reject", "Row", "Superseded", "Tried", "Verdict", "tried"]

Given = Mapping[str, Any] | bytes | str | Record


def tried(name: str, records: Iterable[Given]) -> Tried:
    """Returns what a run of the pipeline would make of these records, given as dicts, bytes, text or `Record`.

    A dict becomes JSON: its decimals, dates and times are written as text. A record's line is its place, from 1 on.
    Starts a Postgres of the test's own, and a local Spark if the definition or a record needs it. Both live as long as
    the process. Raises `Refusal` or `BadDefinition` if nothing could be tried.
    """
    from lockstep.context.systems import configured_registry  # noqa: PLC0415 - a test file imports this module, not all of it
    from lockstep.dev import trial  # noqa: PLC0415

    folder = folders.load(name)
    takes_json = registered_of(folder.pipeline.format) is None
    given = [_record(name, line, each, takes_json=takes_json) for line, each in enumerate(records, 1)]
    return trial.try_records(folder, given, configured_registry())


def _record(name: str, line: int, given: Any, *, takes_json: bool) -> Record:
    match given:
        case Record():
            return given
        case bytes():
            return Record(given)
        case str():
            return Record(given.encode())
        case Mapping() if takes_json:
            return Record(_json(name, line, given))
        case _:
            takes = "a dict, bytes, text or a Record" if takes_json else "bytes or a Record"
            raise Refusal(f"{name}: record {line} is {type(given).__name__}; a record is {takes}")


def _json(name: str, line: int, given: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(dict(given), default=_text, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise Refusal(f"{name}: record {line} cannot be written as JSON: {error}; give bytes") from None


def _text(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, date):  # a datetime is one, too
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__} has no form in JSON")
