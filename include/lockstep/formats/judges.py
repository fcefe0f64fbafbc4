"""Chooses the function that decodes the records of a format one by one, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lockstep.core.capture.debezium import Debezium
from lockstep.core.formats.registered import EVERY, Avro, Protobuf
from lockstep.core.pipeline.formats import Custom, Json, Raw
from lockstep.formats.json.alone import JsonAlone, Unsure, tombstone
from lockstep.formats.own_decoder import OwnDecoder
from lockstep.formats.rows import RecordOutcome

if TYPE_CHECKING:
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.registry import Registry

Judge = Callable[[bytes | None, bytes | None, str | None], RecordOutcome]


def judge_of(folder: PipelineFolder, registry: Registry | None) -> Judge:
    """Returns the function that decodes one record of the pipeline.

    Raises `Unsure` where its own code does not run alone.
    """
    pipeline = folder.pipeline
    match pipeline.format:
        case Json(registry=True) as format_:
            from lockstep.formats.json.heads import headed

            return headed(pipeline, format_, registry)
        case Json() as format_:
            return JsonAlone(pipeline, format_)
        case Avro() | Protobuf() as format_:
            return _registered(folder, format_, registry)
        case Raw() as format_:
            name = format_.column
            return lambda _key, value, _headers: RecordOutcome({name: value})
        case Custom() as format_:
            own = OwnDecoder(format_, folder.decode, pipeline.targets)

            def judged(key: bytes | None, value: bytes | None, headers: str | None) -> RecordOutcome:
                try:
                    return own(key, value, headers)
                except Exception:  # noqa: BLE001 - whatever the pipeline's own code raises ends its task
                    raise Unsure from None

            return judged
        case Debezium() as format_:
            from lockstep.formats.debezium.documents import change_decoder
            from lockstep.formats.debezium.reread import reread

            return reread(change_decoder(pipeline, format_, registry))


def _registered(folder: PipelineFolder, format_: Avro | Protobuf, registry: Registry | None) -> Judge:
    if registry is None:
        raise LookupError(f"{type(format_).__name__} without a registry")
    # It reads what many tasks have read, so it may meet as many unknown ids as all of them.
    limits = replace(folder.pipeline.record_limits, schemas=EVERY)
    made: Any
    if isinstance(format_, Avro):
        from lockstep.formats.avro.decoder import avro_decoder as made
    else:
        from lockstep.formats.protobuf.decoder import protobuf_decoder as made
    decoder: Judge = made(replace(folder.pipeline, record_limits=limits), format_, registry)
    column = next((column for column in format_.columns if column.name == format_.key), None)

    def judged(key: bytes | None, value: bytes | None, headers: str | None) -> RecordOutcome:
        outcome = decoder(key, value, headers)
        is_plain = outcome.deleted and outcome.reason is None and format_.key is not None and not outcome.values
        return tombstone(key, column) if is_plain else outcome

    return judged
