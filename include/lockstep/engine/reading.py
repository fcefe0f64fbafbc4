"""Decides which reader a work has: Kafka's, or one that begins in archived files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.core.retention.archive import Archive
    from lockstep.core.staging import StageWork
    from lockstep.engine.kafka_ranges import KafkaRanges


def reader_of(work: StageWork, kafka: KafkaRanges, archive: Archive | None) -> KafkaRanges:
    """Returns the reader of a work's ranges. Every engine asks here, whatever its route."""
    if archive is None or not work.archived:
        return kafka
    from lockstep.engine.archived_ranges import with_files  # noqa: PLC0415 - few batches begin below log start

    return with_files(kafka, work, archive)
