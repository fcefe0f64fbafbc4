"""Compares what two transforms make of a committed batch, each on a ledger of its own."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import COMMITTER, READER, transaction
from lockstep.core.capture.debezium import without_mark
from lockstep.core.changes.canary import MOST_OFFSETS, SAMPLES_PER_KIND, Compared
from lockstep.core.errors import BadData, Refusal
from lockstep.ledger.proof import canary as ledger
from lockstep.steps.batch.same_log import require_same_log
from lockstep.steps.requests.rehearse import published_for_preview, rehearse_past
from lockstep.targets.proof import difference
from lockstep.targets.proof.side_by_side import carry, compared_columns, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg2.extensions import cursor

    from lockstep.core.changes.canary import Past
    from lockstep.core.engine import Engine
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.steps.context import Context
    from lockstep.steps.requests.rehearse import Rehearsed
    from lockstep.targets.proof.side_by_side import Carried

LIVE, CANARY = "live", "canary"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: its name, a ledger that is thrown away, and the engine of its transform."""

    called: str
    at: Context
    engine: Engine
    folder: PipelineFolder


def newest_batches(at: Context, folder: PipelineFolder, last: int) -> list[Past]:
    """Returns the newest committed batches, the newest first.

    Raises `Refusal` if there is none, if they hold too many offsets, or if the log has lost some.
    """
    name = folder.pipeline.name
    if folder.pipeline.windows:
        raise Refusal(
            f"{name}: {folder.pipeline.windows[0].table} has windows, and their rows are not those of single batches",
            next_command=f"lockstep try {name} --file SAMPLE.jsonl",
        )
    with transaction(at.conn, READER) as cur:
        found = ledger.newest_committed(cur, name, last)
    if not found:
        raise Refusal(
            f"{name}: no batch is committed yet, so there is none to compare", next_command=f"lockstep run {name}"
        )
    view = read_topics(at.broker, folder.pipeline)
    total = 0
    for place, past in enumerate(found):
        total += past.offsets
        fewer = f"lockstep canary {name} --transform {folder.transform_file} --batches {place}" if place else None
        if total > MOST_OFFSETS:
            number = f"the newest {place + 1} batches hold" if place else f"batch {past.batch_id} holds"
            raise Refusal(
                f"{name}: {number} {total:,} offsets, and a canary reads at most {MOST_OFFSETS:,}",
                next_command=fewer or f"lockstep try {name} --file SAMPLE.jsonl",
            )
        for item in past.ranges:
            try:
                require_same_log(view, {past.logs[item.offsets.topic_partition.topic]}, item, past.batch_id, name)
            except Refusal as refusal:
                raise Refusal(refusal.message, next_command=fewer or f"lockstep run {name}") from None
            end = view[item.offsets.topic_partition].stable_end
            if end < item.offsets.until_offset:
                raise Refusal(
                    f"{item.offsets}: the log now ends at {end}: records of batch {past.batch_id} are gone",
                    next_command=fewer or f"lockstep status {name}",
                )
    return found


def compare(live: Side, canary: Side, past: Past, say: Callable[[str], None] = lambda _: None) -> Compared:
    """Rehearses the batch on both sides and compares the rows of each target. Nothing is committed on either.

    Raises `Refusal` if a definition cannot run at all. Records or code at fault are the side's verdict.
    """
    done = {}
    for side in (live, canary):

        def say_of_side(step: str, called: str = side.called) -> None:
            say(f"batch {past.batch_id}, {called}: {step}")

        done[side.called] = rehearse_past(side.at, side.engine, side.folder, past, say_of_side)
    found = Compared(past, {called: its.verdict for called, its in done.items()})
    say(f"batch {past.batch_id}: comparing")
    columns = [
        compared_columns(
            target, [column.name for side in (live, canary) for column in without_mark(side.engine.columns(place))]
        )
        for place, target in enumerate(live.folder.pipeline.targets)
    ]
    named, targets = canary.folder.pipeline.targets, done[CANARY].folder.pipeline.targets
    with ExitStack() as files:
        carried: list[Carried] = []

        def carry_all(cur: cursor) -> None:
            for target, names in zip(targets, columns, strict=True):
                carried.append(carry(cur, target, names, files.enter_context(TemporaryFile())))

        def compare_all(cur: cursor) -> None:
            partitions = ledger.partitions_of_streams(cur)
            for place, its in enumerate(carried):
                names = columns[place]
                rows = side_by_side(cur, targets[place], its, names, SAMPLES_PER_KIND, place)
                found.add(named[place], rows, names, partitions)

        _published(live, done[LIVE], found, carry_all)
        _published(canary, done[CANARY], found, compare_all)
    return found


def _published(side: Side, done: Rehearsed, found: Compared, do: Callable[[cursor], None]) -> None:
    """Publishes the side's rows, calls `do`, and rolls everything back.

    Rows that are refused by the suite are published, too. Rows that a target refuses are the side's verdict.
    """
    if done.attempt is None or not done.is_judged:
        return
    try:
        with transaction(side.at.conn, COMMITTER) as cur:
            rejects = difference.rejects_before_and_after(cur, done.attempt)["after"]
        with published_for_preview(side.at, done.folder, done.attempt) as cur:
            do(cur)
        found.rejects[side.called] = rejects
    except BadData as error:
        verdict = found.verdicts[side.called]
        found.verdicts[side.called] = replace(verdict, refusals=(*verdict.refusals, error.message))
