"""Decodes bytes to columns, with the reason of each failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.registry import Registry
    from lockstep.formats.judged import RecordDecoder


def decoder_of(folder: PipelineFolder, registry: Registry | None, *, keeps_bytes: bool) -> RecordDecoder:
    """Returns the decoder of raw records. Raises `BadDefinition` without the registry or own decoder that it needs."""
    from lockstep.formats.judged import RecordDecoder
    from lockstep.formats.judges import require_judge

    require_judge(folder.pipeline, folder.decode, registry)
    return RecordDecoder(folder.pipeline, folder.decode, registry, keeps_bytes)
