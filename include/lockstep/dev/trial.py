"""Tries records: runs a pipeline over them as a run would, without Kafka and without the project's ledger."""

from __future__ import annotations

import base64
import binascii
import json
import os
import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from lockstep.core.changes.tried import Record, Tried
from lockstep.core.errors import Refusal, quoted
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.pipeline.formats import registered_of
from lockstep.core.pipeline.names import topic_tags
from lockstep.core.planning.routes import Route, Way, may_end_its_reader, needs_spark
from lockstep.core.registry import NAME_REGISTRY
from lockstep.core.settings import REMOTE
from lockstep.dev import scratch
from lockstep.dev.records import lines
from lockstep.engine.chosen import ChosenEngine, ProcessReader
from lockstep.engine.kafka_sample import SampleLog, SampleRanges
from lockstep.steps.context import Context
from lockstep.steps.requests.rehearse import rehearse, without_lake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockstep.core.engine import Engine
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.registry import Registry

PURPOSE = lines.Purpose("nothing was tried", "lockstep try NAME --file SAMPLE.jsonl")
SAMPLE_TOPIC = "sample"  # where a pattern names none
TRIED_RECORD_FIELDS = ("key", "key_base64", "value", "value_base64", "headers", "timestamp")


def try_records(
    folder: PipelineFolder,
    records: Sequence[Record],
    registry: Registry | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Tried:
    """Returns what a run would make of these records.

    The readers, the decoders, the steps and the publishing are those of a run. Only the log and the ledger are of the
    trial's own. Starts a local Spark if the definition or a record needs it.
    """
    if not records:
        raise Refusal(f"{folder.pipeline.name}: there is no record to try", next_command=PURPOSE.command)
    if (wire := registered_of(folder.pipeline.format)) and registry is None:
        raise Refusal(
            f"{folder.pipeline.name}: records are {type(wire).__name__}, and LOCKSTEP_REGISTRY names no schema registry",
            next_command=NAME_REGISTRY,
        )
    if not isinstance(folder.pipeline.topic, str):  # the given records are those of one topic
        (first, *_) = (*topic_tags(folder.pipeline.topic), SAMPLE_TOPIC)
        folder = replace(folder, pipeline=replace(folder.pipeline, topic=first))
    limits, stamp = folder.pipeline.record_limits, int(time.time() * 1000)
    sample = SampleRanges("", KafkaOptions(), limits, given=tuple(records), stamp=stamp)
    engines: list[str] = []
    here = without_lake(folder)
    why = needs_spark(here) or may_end_its_reader(here.pipeline)
    say("starting a Postgres of the trial's own")
    with scratch.scratch_ledger() as dsn, closing(Context(dsn, SampleLog(len(records)))) as at:

        def spark() -> Engine:
            say(f"starting Spark: {why or 'a record keeps the decoder of this process busy'}")
            from lockstep.engine.spark.engine import SparkEngine  # noqa: PLC0415 - it takes longer than many a trial

            os.environ.pop(REMOTE, None)  # a server elsewhere cannot reach the trial's Postgres
            engines.append("spark")
            return SparkEngine(here, "", dsn, registry=registry, sample=sample)

        choice = Route(Way.SPARK if why else Way.PROCESS, "a trial")
        engine = ChosenEngine(here, lambda: ProcessReader(here, sample, dsn, registry), spark, choice)
        found = rehearse(at, engine, folder, say)
    return replace(found, engine="spark" if engines else "driver")


def sample(
    name: str, key: str | None, *, envelope: bool, most: int | None, says_bytes: bool
) -> tuple[tuple[Record, ...], int]:
    """Returns the records of a file of lines, or of standard input for `-`, and the number of its lines.

    With `envelope`, each line is a JSON object with a record's key, value, headers and timestamp. `says_bytes` is True
    if the records are bytes that no line can hold.
    """
    with lines.open_lines(name, key, lambda _: None, PURPOSE) as found:
        given = list(islice(found.records(), most))
        shown, count = found.shown, found.count
    if envelope:
        return tuple(_enveloped(f"{shown}:{number}", line) for number, (_, line) in enumerate(given, 1)), count
    for number, (_, line) in enumerate(given, 1):
        if says_bytes or b"\0" in line:
            what = "this pipeline's records are bytes" if says_bytes else "it holds a NUL byte, and is no line of text"
            raise _bad(f"{shown}:{number}", f'{what}; give them as {{"value_base64": "..."}} a line, with --envelope')
    return tuple(Record(value, its_key) for its_key, value in given), count


def _enveloped(where: str, line: bytes) -> Record:
    """Returns the record that a line describes. Raises `Refusal` with the line and the field."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise _bad(where, "no JSON, and with --envelope each line is an object") from None
    if not isinstance(record, dict) or not ({"value", "value_base64"} & record.keys()):
        raise _bad(where, "no object with value or value_base64, and with --envelope each line is one")
    if unknown := next((field for field in record if field not in TRIED_RECORD_FIELDS), None):
        raise _bad(where, f"field {quoted(unknown)} is not one of {', '.join(TRIED_RECORD_FIELDS)}")
    headers = record.get("headers") or {}
    if not isinstance(headers, dict):
        raise _bad(where, "headers is no object of names and values")
    return Record(
        _bytes_of(where, record, "value"),
        _bytes_of(where, record, "key"),
        tuple((name, _bytes(where, f"headers.{name}", value)) for name, value in headers.items()),
        _moment(where, record.get("timestamp")),
    )


def _bytes_of(where: str, record: dict[str, Any], field: str) -> bytes | None:
    coded = record.get(f"{field}_base64")
    if coded is None:
        return _bytes(where, field, record.get(field))
    if record.get(field) is not None:
        raise _bad(where, f"{field} and {field}_base64 are both there")
    try:
        return base64.b64decode(coded, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise _bad(where, f"{field}_base64 is no base64") from None


def _bytes(where: str, field: str, value: Any) -> bytes | None:
    """Returns text as it is, and anything else as JSON."""
    try:
        return None if value is None else (value if isinstance(value, str) else json.dumps(value)).encode()
    except UnicodeEncodeError:
        raise _bad(where, f"{field} is no text that UTF-8 can hold") from None


def _moment(where: str, value: Any) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise _bad(where, f"timestamp {quoted(str(value))} is no ISO 8601 time with a zone")
    return moment


def _bad(where: str, what: str) -> Refusal:
    return Refusal(f"{where}: {what}; {PURPOSE.not_done}", next_command=PURPOSE.command)
