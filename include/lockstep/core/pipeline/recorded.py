"""Builds a pipeline from the ledger's own document of it. The pages need its values and must not run its code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.capture.debezium import Debezium
from lockstep.core.errors import BadDefinition
from lockstep.core.feed.feeds import Feed, Topic
from lockstep.core.formats.registered import Avro, Protobuf
from lockstep.core.lake.catalogs import Catalog
from lockstep.core.lake.iceberg import recorded_table
from lockstep.core.pipeline.definition import Limits, Pipeline
from lockstep.core.pipeline.folder import BESIDE
from lockstep.core.pipeline.formats import Custom, Envelope, Json, Raw
from lockstep.core.pipeline.guarantees import AtLeastOnce, AtMostOnce, Idempotent, PerBatch, PerPartition
from lockstep.core.pipeline.limits import RecordLimits
from lockstep.core.pipeline.names import source_of
from lockstep.core.pipeline.stores import Files, Postgres
from lockstep.core.pipeline.targets import Accumulate, Append, History, Send, Upsert, Windows
from lockstep.core.pipeline.totals import Count, Max, Min, Sum
from lockstep.core.retention.archive import Archive
from lockstep.core.windows.event_time import Calendar, EventTime, Hopping, Tumbling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FORMATS = (Json, Avro, Protobuf, Raw, Custom, Debezium)
TARGET_TYPES = (Append, History, Send, Upsert, Accumulate, Windows)
WINDOW_KINDS = (Tumbling, Hopping, Calendar)
TOTALS = (Count, Sum, Min, Max)
GUARANTEES = (PerBatch, PerPartition, Idempotent, AtLeastOnce, AtMostOnce)
STORES = (Postgres, Files, Catalog)


def pipeline_of_document(document: Mapping[str, Any]) -> Pipeline:
    """Returns the pipeline of a folder's `document()`.

    Refuses a document that this version of the code does not know.
    """
    whole = {name: value for name, value in document.items() if name not in BESIDE}
    try:
        whole["topic"] = source_of(whole["topic"])
        targets = whole.pop("target")
        made = [_target(each) for each in (targets if isinstance(targets, list) else [targets])]
        whole["target"] = tuple(made) if isinstance(targets, list) else made[0]
        whole["format"] = _format(whole["format"])
        whole["guarantee"] = _of_kind(whole["guarantee"], GUARANTEES)
        whole["limits"] = Limits(**whole["limits"])
        if "record_limits" in whole:
            whole["record_limits"] = RecordLimits(**whole["record_limits"])
        if "store" in whole:
            whole["store"] = _of_kind(whole["store"], STORES)
        if "envelope" in whole:
            whole["envelope"] = Envelope(**whole["envelope"])
        if isinstance(whole["start"], dict):
            whole["start"] = {int(partition): offset for partition, offset in whole["start"].items()}
        if "event_time" in whole:
            whole["event_time"] = EventTime(**whole["event_time"])
        if "archive" in whole:
            whole["archive"] = Archive(**whole["archive"])
        return Pipeline(**whole)
    except (KeyError, TypeError) as error:
        why = " ".join(str(error).split())
        raise BadDefinition(f"the ledger's definition of {document.get('name')} is of another version: {why}") from None


def _format(document: Mapping[str, Any]) -> Any:
    known = dict(document)
    if isinstance(known.get("key"), list | tuple):
        known["key"] = tuple(known["key"])
    if known.get("wire") is not None:
        known["wire"] = Avro(**known["wire"])
    return _of_kind(known, FORMATS)


def _target(document: Mapping[str, Any]) -> Any:
    known = dict(document)
    if "table" in known:
        known["table"] = recorded_table(known["table"])
    for name in ("key", "shared_with"):
        if known.get(name) is not None:
            known[name] = tuple(known[name])
    if "totals" in known:
        known["totals"] = tuple(_of_kind(each, TOTALS) for each in known["totals"])
    if "topic" in known:
        known["topic"] = Topic.of_document(known["topic"])
    if "window" in known:
        known["window"] = _of_kind(known["window"], WINDOW_KINDS)
    if "feed" in known:
        known["feed"] = _feed(known["feed"])
    return _of_kind(known, TARGET_TYPES)


def _feed(document: Mapping[str, Any]) -> Feed:
    to = document.get("to")
    return Feed(**{**document, "to": Topic.of_document(to) if to else None})


def _of_kind(document: Mapping[str, Any], kinds: Iterable[type]) -> Any:
    options = dict(document)
    kind = options.pop("kind")
    for each in kinds:
        if each.__name__ == kind:
            return each(**options)
    raise KeyError(kind)
