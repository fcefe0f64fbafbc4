"""Validates a batch: the same log, an acceptable share of rejects, and the pipeline's expectations.

Stage compares the counts.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import STAGER, transaction
from lockstep.core.errors import BadData
from lockstep.core.pipeline.violations import Judgement, reasons_of
from lockstep.core.proof.accounting import rejects_told, too_many_rejects
from lockstep.core.states import CommitUnit
from lockstep.faults import reach
from lockstep.ledger.batch import attempts, ranges, results
from lockstep.ledger.batch.hidden import hidden_rows
from lockstep.ledger.batch.same_definition import require_same_definition
from lockstep.ledger.lake.of_tasks import rows_in_files
from lockstep.ledger.staging.quarantine import put_aside
from lockstep.ledger.staging.staged import staged_reasons, staged_totals
from lockstep.ledger.staging.target_rows import require_target_rows
from lockstep.steps.attempt.holding import holding_attempt
from lockstep.steps.attempt.judge import judge_beside
from lockstep.steps.attempt.long_keys import judge_keys
from lockstep.steps.batch.same_log import log_starts
from lockstep.steps.ranges.put_aside import put_aside_behind, require_left
from lockstep.steps.windows.judge_events import judge_events

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import AttemptId, HiddenRows
    from lockstep.steps.context import Context


def validate(at: Context, folder: PipelineFolder, attempt: AttemptId, *, hands_over: bool = False) -> None:
    """Records the counts of the read and the verdict on it.

    Raises `BadData`, with the verdict kept, when the attempt must not be committed. `hands_over` keeps the batch for
    the process that commits.
    """
    with holding_attempt(at, folder.pipeline, attempt, hands_over=hands_over):
        with transaction(at.conn, STAGER) as cur:
            opened = attempts.opened(cur, attempt)
        if opened.unit == CommitUnit.STREAM:
            _judge_committed(at, folder, attempt)
            reach("validate.after")
            return
        after = log_starts(at, folder.pipeline, attempt.batch_id, opened.log_starts)
        with transaction(at.conn, STAGER) as cur:
            attempts.require_newest(cur, attempt)  # the staging of a superseded attempt may be gone
            require_same_definition(cur, attempt, folder)
            totals = results.stream_totals(cur, attempt)
            rows, targets = sum(total.rows for total in totals), folder.pipeline.targets
            require_target_rows(cur, attempt, targets, rows, rows_in_files(cur, attempt, targets), BadData)
            hidden = hidden_rows(cur, attempt)
        suite = _expectations(at, folder, attempt) if folder.expectations else Judgement({"success": True})
        suite = judge_keys(at, folder, attempt, judge_events(at, folder.pipeline, attempt, suite))
        too_many = _rejects(folder, totals, len(suite.violators))
        refusals = too_many + suite.refusals
        with transaction(at.conn, STAGER) as cur:
            attempts.require_newest(cur, attempt)
            reasons = _reasons(cur, attempt, totals, suite) if too_many else []
            if suite.violators and not refusals:
                totals = _put_aside(cur, folder, attempt, totals, suite.violators, hidden)
            starts = {stream: (opened.log_starts[stream], start) for stream, start in after.items()}
            results.insert_results(cur, attempt, totals, starts)
            name = folder.expectations.get("name") if folder.expectations else None
            result = suite.document | {"refusals": refusals, "quarantined": sum(t.quarantined for t in totals)}
            results.insert_verdict(cur, attempt, folder, name, success=not refusals, result=result)
            if not refusals:
                attempts.mark_validated(cur, attempt)
        reach("validate.after")
        if refusals:
            raise _refusal(folder, attempt, refusals, reasons)


def _reasons(cur: cursor, attempt: AttemptId, totals: Sequence[Any], suite: Judgement) -> list[str]:
    """Returns why records are rejects, with the first place of each reason."""
    partitions = {total.stream_id: f"{total.topic}-{total.partition}" for total in totals}
    return [*staged_reasons(cur, attempt), *reasons_of(suite.violators, partitions)]


def _refusal(folder: PipelineFolder, attempt: AttemptId, refusals: Sequence[str], reasons: Sequence[str]) -> BadData:
    more = f" (and {len(refusals) - 1} more)" if len(refusals) > 1 else ""
    return BadData(
        f"{folder.pipeline.name}: batch {attempt.batch_id} is refused: {refusals[0]}{more}",
        next_command=f"lockstep batch {attempt.batch_id}",
        values="\n".join(reasons),
    )


def _judge_committed(at: Context, folder: PipelineFolder, attempt: AttemptId) -> None:
    """Checks the tasks' commits once more: every range is there, with as many rejects as were recorded.

    A range that a replay has taken over since has its rejects with the replay.
    """
    with transaction(at.conn, STAGER) as cur:
        attempts.require_newest(cur, attempt)
        require_same_definition(cur, attempt, folder)
        ranges.require_all_ranges(cur, attempt.batch_id)
        found = ranges.recorded_ranges(cur, attempt.batch_id)
        for row in found:
            if row.is_held and row.rejects_kept != row.rejected:
                raise BadData(
                    f"{row.topic}-{row.partition}: batch {attempt.batch_id} recorded {row.rejected} rejects, "
                    f"{row.rejects_kept} are there"
                )
        told = {
            name: int(sum(getattr(row, name) for row in found)) for name in ("delivered", "written", "rejected", "rows")
        }
        result = {"success": True, "committed_by_tasks": told}
        results.insert_verdict(cur, attempt, folder, None, success=True, result=result)
        attempts.mark_validated(cur, attempt)


def require_counts(totals: Sequence[Any], staged: Mapping[int, Any]) -> None:
    """Refuses staged rows that differ from the winning tasks' reports."""
    if strangers := staged.keys() - {total.stream_id for total in totals}:
        raise BadData(
            f"staged are rows of streams {sorted(strangers)}, which the batch has no range of: the transform's"
        )
    for total in totals:
        found = staged.get(total.stream_id)
        counts = (found.rows, found.rejected) if found else (0, 0)
        where = f"{total.topic}-{total.partition} [{total.from_offset}, {total.until_offset})"
        if counts != (total.rows, total.rejected):
            raise BadData(f"{where}: staged are (rows, rejects) {counts}, reported were {(total.rows, total.rejected)}")
        if total.delivered < total.written + total.rejected:
            raise BadData(
                f"{where}: {total.delivered} delivered, {total.written} written and {total.rejected} rejected"
            )
        if found and not total.from_offset <= found.first_offset <= found.last_offset < total.until_offset:
            raise BadData(f"{where}: staged are offsets {found.first_offset} to {found.last_offset}")


def _put_aside(
    cur: cursor,
    folder: PipelineFolder,
    attempt: AttemptId,
    totals: Sequence[Any],
    violators: Mapping[tuple[int, int], str],
    hidden: HiddenRows | None,
) -> list[Any]:
    """Makes these records rejects. Returns the new totals, proven against the rows' own table again."""
    if hidden:
        gone = put_aside_behind(cur, attempt, hidden, violators)
    else:
        gone = put_aside(cur, attempt, violators, beside=folder.quarantines and folder.transform is not None)
    after = [
        total._replace(
            written=total.written - gone[total.stream_id].records,
            rejected=total.rejected + gone[total.stream_id].records,
            quarantined=gone[total.stream_id].records,
            rows=total.rows - gone[total.stream_id].rows,
            # The digests of the staged rows, less those of the quarantined ones. A change since then still shows.
            rows_digest=_less(total.rows_digest, gone[total.stream_id].rows_digest),
            rejects_digest=_less(total.rejects_digest, -gone[total.stream_id].rejects_digest),
        )
        if total.stream_id in gone
        else total
        for total in totals
    ]
    found = sum(total.quarantined for total in after)
    if found != len(violators):
        raise BadData(f"{found} of {len(violators)} records that an expectation turned away are staged")
    staged = staged_totals(cur, attempt)
    if hidden:
        require_left(cur, folder.pipeline, attempt, hidden, after, staged)
    else:
        require_counts(after, staged)
    return after


def _less(digest: int | None, gone: int) -> int | None:
    return None if digest is None else digest - gone


def _rejects(folder: PipelineFolder, totals: Sequence[Any], violators: int) -> list[str]:
    rejected, delivered = sum(t.rejected for t in totals) + violators, sum(t.delivered for t in totals)
    share = folder.pipeline.max_reject_share
    if not too_many_rejects(rejected, delivered, share):
        return []
    return [rejects_told(rejected, delivered, share, violators)]


def _expectations(at: Context, folder: PipelineFolder, attempt: AttemptId) -> Judgement:
    found = judge_beside().ask(at.dsn, folder, attempt)
    if found is not None:
        return found
    _silence("great_expectations")  # its import alone logs two hundred lines, and parts of it set levels of their own
    from lockstep.steps.batch.expectations import judge_rows  # noqa: PLC0415 - Great Expectations takes seconds to import

    return judge_rows(at.dsn, folder, attempt)


def _silence(name: str) -> None:
    """Drops what a library logs. The verdict says what is worth reading."""
    logger = logging.getLogger(name)
    if logger.propagate:
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
