"""Builds a pipeline from the ledger's own document of it. The pages need its values and must not run its code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.definition import Limits, Pipeline
from lockstep.core.errors import BadDefinition
from lockstep.core.folder import BESIDE
from lockstep.core.formats import Avro, Custom, Envelope, Json, Raw
from lockstep.core.guarantees import AtLeastOnce, AtMostOnce, Idempotent, PerBatch, PerPartition
from lockstep.core.record_limits import RecordLimits
from lockstep.core.stores import Files, Postgres
from lockstep.core.targets import Accumulate, Append, Upsert
from lockstep.core.totals import Count, Max, Min, Sum

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FORMATS = (Json, Avro, Raw, Custom)
TARGETS = (Append, Upsert, Accumulate)
TOTALS = (Count, Sum, Min, Max)
GUARANTEES = (PerBatch, PerPartition, Idempotent, AtLeastOnce, AtMostOnce)
STORES = (Postgres, Files)


def recorded(document: Mapping[str, Any]) -> Pipeline:
    """Returns the pipeline of a folder's `document()`.

    Refuses a document that this version of the code does not know.
    """
    whole = {name: value for name, value in document.items() if name not in BESIDE}
    try:
        targets = whole.pop("target")
        made = [_target(each) for each in (targets if isinstance(targets, list) else [targets])]
        whole["target"] = tuple(made) if isinstance(targets, list) else made[0]
        whole["format"] = _of_kind(whole["format"], FORMATS)
        whole["guarantee"] = _of_kind(whole["guarantee"], GUARANTEES)
        whole["limits"] = Limits(**whole["limits"])
        if "record_limits" in whole:
            whole["record_limits"] = RecordLimits(**whole["record_limits"])
        if "store" in whole:
            whole["store"] = _of_kind(whole["store"], STORES)
        if "envelope" in whole:
            whole["envelope"] = Envelope(**whole["envelope"])
        return Pipeline(**whole)
    except (KeyError, TypeError) as error:
        why = " ".join(str(error).split())
        raise BadDefinition(f"the ledger's definition of {document.get('name')} is of another version: {why}") from None


def _target(document: Mapping[str, Any]) -> Any:
    known = dict(document)
    for name in ("key", "shared_with"):
        if name in known:
            known[name] = tuple(known[name])
    if "totals" in known:
        known["totals"] = tuple(_of_kind(each, TOTALS) for each in known["totals"])
    return _of_kind(known, TARGETS)


def _of_kind(document: Mapping[str, Any], kinds: Iterable[type]) -> Any:
    options = dict(document)
    kind = options.pop("kind")
    for each in kinds:
        if each.__name__ == kind:
            return each(**options)
    raise KeyError(kind)
