"""Renders one record, found by its offset or a row's key: its batch, its rows, and its bytes in Kafka."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException
from fastapi.responses import HTMLResponse

from lockstep.adapters.kafka.reading import record_headers
from lockstep.core.errors import Refusal, Unreachable, UnreadableHeaders
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.pipeline.names import pipeline_of_dag
from lockstep.core.pipeline.targets import asked_key
from lockstep.core.states import CoverageKind
from lockstep.core.text import bytes_text
from lockstep.ledger.views import tracing
from lockstep.ledger.views.erased import erased_by
from lockstep.steps.inspect.archived_records import files_of_range, messages_in_files
from lockstep.targets.stores.warehouse import Warehouse
from lockstep.web.place import (
    LedgerAway,
    connection_broker,
    connection_results_elsewhere,
    reading_ledger,
    recorded_pipeline,
    view_of,
)
from lockstep.web.render import page, writable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.offsets import TopicView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.ledger.views.reading import Document
    from lockstep.targets.stores.delivery import Results

MOST_READ = 100_000_000  # bytes of a batch of records after decompression: the server has other pages to make
MOST_SHOWN = 20_000  # characters of a value, and as many of a row's
MOST_SET_OUT = 64_000  # characters of JSON. Indenting longer ones costs memory by their depth, and they are cut anyway.
MOST_HEADERS = 100
BRACKETS = re.compile(r"[\[\]{}]")
GONE = "Kafka does not have this offset any more, or not yet."
ANOTHER_LOG = "Kafka has another topic of this name now, and none of its records is this one."
MOST_NESTED = 50  # open brackets in JSON that is indented


@dataclass(frozen=True, slots=True)
class ReadableRecord:
    """A readable record from Kafka: JSON is indented, bytes that are no text are in hexadecimal."""

    timestamp: datetime | None
    key: str
    value: str
    headers: tuple[tuple[str, str], ...]


def record_page(
    dag_id: str, topic: str | None, partition: int | None, offset: int | None, key: Sequence[str]
) -> HTMLResponse:
    """Renders one record, found by its offset or its row's key. A failure is one line on the page, and its status."""
    name, status = pipeline_of_dag(dag_id), 200
    asks = bool(key) or (partition is not None and offset is not None)
    values: dict[str, Any] = {"found": None, "rows": [], "raw": None, "no_raw": None, "outcome": "", "refused": None}
    values["adds_up"] = []
    columns: tuple[str, ...] = ()
    of_topics = False
    try:
        pipeline = recorded_pipeline(name)
        of_topics = not isinstance(pipeline.topic, str)
        keyed = tracing.keyed(pipeline)
        columns = asked_key(keyed.first) if keyed else ()
        results = connection_results_elsewhere(pipeline) if pipeline.store else None
        if key and not keyed:
            raise HTTPException(400, f"Rows of {name} have no key: a record is found by partition and offset.")
        stream = None
        if key and keyed:
            stream, by_key = _blamed(keyed, results, key)
            topic, partition, offset = by_key["topic"], by_key["partition"], by_key["offset"]
            values["adds_up"] = by_key["contributions"]
        if partition is not None and offset is not None:
            look = partial(results.rows_of_offset, pipeline) if results else None
            with reading_ledger() as cur:
                found = tracing.outcome_of_record(cur, pipeline, partition, offset, look, topic, stream)
            values |= {"found": found, "rows": found["rows"], "outcome": _outcome(found)}
            values["raw"], values["no_raw"] = _raw(pipeline, found, stream)
    except LedgerAway:
        raise
    except Refusal as refusal:
        values["refused"] = refusal
        status = _status(refusal, key, columns) if asks else 200
    body = page(
        "record.html.jinja",
        dag_id=dag_id,
        pipeline=name,
        topic=topic,
        of_topics=of_topics,
        partition=partition,
        offset=offset,
        key=list(key),
        key_columns=columns,
        **values,
    )
    return HTMLResponse(body, status)


def _status(refusal: Refusal, key: Sequence[str], columns: Sequence[str]) -> int:
    """Returns 503 if another system is away, 400 for a key that fits no row, else 404."""
    if isinstance(refusal, Unreachable):
        return 503
    return 400 if key and len(key) != len(columns) else 404


def _blamed(keyed: Pipeline, results: Results | None, key: Sequence[str]) -> tuple[int, Document]:
    """Returns the stream and the record behind a key's row, whichever store holds the row."""
    if isinstance(results, Warehouse):
        with reading_ledger() as cur, results.reading() as target_cur:
            return tracing.stream_and_record(cur, keyed, key, target_cur)
    with reading_ledger() as cur:
        return tracing.stream_and_record(cur, keyed, key)


def _outcome(found: Document) -> str:
    if found["erased"]:
        return _erased(found["erased"])
    if found["reject"]:
        return "rejected"
    if found["rows"]:
        return f"{len(found['rows'])} row{'s' if len(found['rows']) > 1 else ''}"
    if found["coverage"] == CoverageKind.BATCH:
        return "no row stands: a newer record, a tombstone or the transform took it"
    return "nothing was read here"


def _erased(decision_id: int) -> str:
    return f"erased by decision {decision_id}"


def _raw(pipeline: Pipeline, found: Document, of_stream: int | None) -> tuple[ReadableRecord | None, str | None]:
    """Returns the record from Kafka, or from the archive of a log that lost it, or why there is none.

    A record that was erased is not read. One whose Kafka key was erased is not shown.
    """
    if found["erased"]:
        return None, f"The record was {_erased(found['erased'])}, and its bytes are not shown."
    where, offset = TopicPartition(found["topic"], found["partition"]), found["offset"]
    try:
        topic, unknown = view_of(where.topic)
        if topic is None:
            return None, unknown
        with reading_ledger() as cur:
            stream = tracing.stream_of_offset(cur, pipeline.name, where, offset, of_stream)
            log = tracing.log_of_stream(cur, stream)
        item = StreamRange(stream, OffsetRange(where, offset, offset + 1))
        gone = _why_gone(topic, log, item.offsets)
        message, no_message = _archived(pipeline, item, gone) if gone else _in_log(topic, item.offsets)
        if message is None:
            return None, no_message
        with reading_ledger() as cur:
            decision_id = erased_by(cur, stream, offset, message.key())
        if decision_id:
            return None, f"A record of this key was {_erased(decision_id)}, and its bytes are not shown."
        return _readable(message), None
    except Refusal as refusal:
        return None, refusal.message


def _why_gone(view: TopicView, log: tuple[str, str, str], wanted: OffsetRange) -> str | None:
    """Says why the log does not have an offset any more, or returns None if it may have it."""
    if view.log_of(wanted.topic_partition.topic) != log:  # a topic that was made anew holds other records
        return ANOTHER_LOG
    bounds = view.get(wanted.topic_partition)
    return GONE if bounds is None or wanted.from_offset < bounds.log_start else None


def _in_log(view: TopicView, wanted: OffsetRange) -> tuple[Any | None, str | None]:
    where, offset = wanted.topic_partition, wanted.from_offset
    if offset >= view[where].stable_end:
        return None, GONE
    for message in connection_broker().records(where.topic, where.partition, offset, offset + 1, most=MOST_READ):
        return message, None
    return None, "No record stands at this offset: the end of a transaction, an aborted or a compacted record."


def _archived(pipeline: Pipeline, item: StreamRange, gone: str) -> tuple[Any | None, str | None]:
    with reading_ledger() as cur:
        files = files_of_range(cur, pipeline, item)
    if not files:
        return None, gone
    for message in messages_in_files(connection_broker(), pipeline, files, item.offsets):
        return message, None
    return (
        None,
        "No record stands at this offset in the archive: the end of a transaction, an aborted or a compacted record.",
    )


def _readable(message: Any) -> ReadableRecord:
    kind, milliseconds = message.timestamp()
    at = datetime.fromtimestamp(milliseconds / 1000, UTC) if kind and 0 <= milliseconds < 2**47 else None
    try:
        found = (record_headers(message) or [])[:MOST_HEADERS]
    except UnreadableHeaders:
        found = [("a name that is no UTF-8", None)]
    headers = tuple((writable(name), _shown(value)) for name, value in found)
    return ReadableRecord(at, _shown(message.key()), _shown(message.value()), headers)


def _shown(value: bytes | None) -> str:
    if value is None:
        return "null"
    if len(value) > MOST_SET_OUT:  # cut before any conversion, because a record may have hundreds of megabytes
        text = value[:MOST_SHOWN].decode(errors="backslashreplace")
        return f"{writable(text)}... ({len(value):,} bytes)"
    text = bytes_text(value)
    if text[:1] in ("{", "[") and is_shallow(text):
        with suppress(ValueError):
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    text = writable(text)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(text):,} characters)"


def is_shallow(text: str) -> bool:
    """Returns True if at most `MOST_NESTED` brackets are open at once. Brackets within strings count, too."""
    depth = 0
    for bracket in BRACKETS.findall(text):
        depth += 1 if bracket in "{[" else -1
        if depth > MOST_NESTED:
            return False
    return True
