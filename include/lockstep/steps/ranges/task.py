"""Carries to a task all that it needs to commit ranges, and connects it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PARTITION_ROLE, connect, transaction
from lockstep.core.engine import RangeTask
from lockstep.ledger.batch import commit as ledger
from lockstep.ledger.batch import ranges
from lockstep.ledger.staging.suppression import erased_columns
from lockstep.steps.attempt.target_refusal import refused_by_target
from lockstep.steps.ranges.commit_range import RangeCommits
from lockstep.targets import straight

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import StreamRange, TopicPartition
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.staging import AttemptId
    from lockstep.core.states import Lane


@dataclass(frozen=True, slots=True)
class RangesOfAttempt(RangeTask):
    """One attempt's ranges and all that committing them takes. Executors get it by value.

    `logs` are the (cluster id, topic id) of each topic, as the batch was planned. `epochs` are the leader epochs of that
    plan. `log_starts` are per stream, from before the read. `archived` are the stretches that were read from files.
    """

    dsn: str = field(repr=False)
    broker: Broker = field(repr=False)
    pipeline: Pipeline
    attempt: AttemptId
    lane: Lane
    ranges: Mapping[int, StreamRange]
    columns: Sequence[Column]
    logs: Mapping[str, set[tuple[str, str]]]
    definition_hash: str
    log_starts: Mapping[int, int]
    epochs: Mapping[int, int]
    archived: Mapping[TopicPartition, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def refused(self) -> AbstractContextManager[None]:
        """Turns a refusal by the target's table into an error of the data, in one line."""
        return refused_by_target(self.pipeline, self.attempt, self.pipeline.first.table)

    @contextmanager
    def session(self) -> Iterator[RangeCommits]:
        """Connects, and records the connection so that a newer attempt can end it."""
        conn = connect(self.dsn, name=f"lockstep range {self.attempt.batch_id}.{self.attempt.token}")
        try:
            with transaction(conn, None) as cur:
                backend = ledger.my_backend(cur)
            with transaction(conn, PARTITION_ROLE) as cur:
                ranges.record_task(cur, self.attempt, backend)
                # Rows that may hold an erased key are looked through in a table of their own before they are published.
                erased = erased_columns(cur, self.pipeline.name)
                names = () if erased else straight(cur, self.pipeline.first, self.columns)
                before = ranges.committed_streams(cur, self.attempt.batch_id)
            yield RangeCommits(self, conn, names, before, erased)
        finally:
            conn.close()
