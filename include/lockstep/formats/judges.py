"""Chooses the function that decodes the records of a format one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lockstep.core.capture.debezium import Debezium
from lockstep.core.errors import BadDefinition
from lockstep.core.formats.registered import Avro, Protobuf, require_registry
from lockstep.core.pipeline.formats import Custom, Json, Raw
from lockstep.formats.json.judge import JsonJudge
from lockstep.formats.rows import RecordOutcome

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry

Judge = Callable[[bytes | None, bytes | None, str | None], RecordOutcome]


def judge_of(pipeline: Pipeline, source: str | None, registry: Registry | None) -> Judge:
    """Returns the function that decodes one record of the pipeline. `source` is that of its own decoder.

    Raises `BadDefinition` without the registry or the decoder that the format needs.
    """
    match pipeline.format:
        case Json(registry=True) as format_:
            from lockstep.formats.json.heads import headed

            return headed(pipeline, format_, require_registry(pipeline, format_, registry))
        case Json() as format_:
            return JsonJudge(pipeline, format_)
        case Avro() | Protobuf() as format_:
            return _registered(pipeline, format_, require_registry(pipeline, format_, registry))
        case Raw() as format_:
            name = format_.column
            return lambda _key, value, _headers: RecordOutcome({name: value})
        case Custom() as format_:
            from lockstep.formats.own_decoder import OwnDecoder

            return OwnDecoder(format_, source, pipeline.targets)
        case Debezium() as format_:
            from lockstep.formats.debezium.documents import change_decoder

            if format_.wire is not None:
                registry = require_registry(pipeline, format_.wire, registry)
            return change_decoder(pipeline, format_, registry)


def require_judge(pipeline: Pipeline, source: str | None, registry: Registry | None) -> None:
    """Raises `BadDefinition` before a task begins if the pipeline's records cannot be judged."""
    if isinstance(pipeline.format, Custom):
        from lockstep.formats.own_code import function_of, refuse_vain_deletion

        try:
            function_of(pipeline.format.function, source)
            refuse_vain_deletion(pipeline.format, source, pipeline.targets)
        except BadDefinition as fault:
            raise BadDefinition(f"{pipeline.name}: {fault}", next_command=f"lockstep check {pipeline.name}") from None
    wire = pipeline.format.wire if isinstance(pipeline.format, Debezium) else pipeline.format
    if isinstance(wire, Avro | Protobuf) or (isinstance(wire, Json) and wire.registry):
        require_registry(pipeline, wire, registry)


def _registered(pipeline: Pipeline, format_: Avro | Protobuf, registry: Registry) -> Judge:
    if isinstance(format_, Avro):
        from lockstep.formats.avro.decoder import avro_decoder

        return avro_decoder(pipeline, format_, registry)
    from lockstep.formats.protobuf.decoder import protobuf_decoder

    return protobuf_decoder(pipeline, format_, registry)
