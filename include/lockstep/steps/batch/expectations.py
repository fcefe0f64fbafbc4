"""Runs the pipeline's Great Expectations suite over the rows of an attempt, staged or hidden, never over a whole table."""

from __future__ import annotations

import logging
import os
import pickle
import sys
from contextlib import closing, suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

import great_expectations as gx
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.registry import list_registered_expectation_implementations

from lockstep.adapters.connection.dsn import staging_dsn
from lockstep.adapters.connection.judge import JUDGE_ROLE, JudgeConnection
from lockstep.adapters.connection.opened import open_stager
from lockstep.adapters.connection.roles import become
from lockstep.adapters.postgres_words import last_line
from lockstep.core.errors import BadData
from lockstep.core.pipeline.violations import (
    QUARANTINE,
    Judgement,
    expected_columns,
    is_critical,
    on_violation,
    quarantine_reason,
)
from lockstep.ledger.staging.judged import EVERY_JUDGED_ROW, show_to_judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import AttemptId

NOT_ITS_OWN = "postgresql+psycopg2://stager@ledger/lockstep"  # GX wants an address, and connects by ours
RECORD_COORDINATES = ["_stream", "_offset"]
COORDINATES_KEPT = 20
# The most violating rows of one expectation that are looked up. If there are more, no single record is wrong.
ROWS_LOOKED_UP = 100_000


def judge_rows(dsn: str, folder: PipelineFolder, attempt: AttemptId) -> Judgement:
    """Runs the suite. Each failed critical expectation refuses the batch, or names the records to quarantine."""
    with closing(judging_session(dsn, attempt)) as conn:
        return _judge(folder, attempt, conn)


def _judge(folder: PipelineFolder, attempt: AttemptId, conn: JudgeConnection) -> Judgement:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    suite = _suite(folder)
    try:
        source = context.data_sources.add_postgres(  # type: ignore[call-arg]  # its model takes `kwargs`
            folder.pipeline.name,
            connection_string=NOT_ITS_OWN,
            create_temp_table=False,  # the session writes nothing
            kwargs={"creator": lambda: conn},
        )
        asset = source.add_query_asset(attempt.table, EVERY_JUDGED_ROW)
        batch = asset.add_batch_definition_whole_table("winners").get_batch()
    except Exception as error:  # noqa: BLE001 - GX raises its own kinds without a common parent
        raise _cannot_be_run(folder, error) from None
    outcome = batch.validate(
        suite,
        result_format={
            "result_format": "SUMMARY",
            "unexpected_index_column_names": RECORD_COORDINATES,
            "partial_unexpected_count": ROWS_LOOKED_UP if folder.quarantines else COORDINATES_KEPT,
        },
    )
    violating = [(result.result or {}).get("partial_unexpected_index_list") or [] for result in outcome.results]
    for result in outcome.results:
        _keep_few(result.result or {})  # before they become JSON, which takes longer than to find them
    if len(violating) != len((folder.expectations or {})["expectations"]):
        raise BadData(f"{folder.pipeline.name}: expectations.json: Great Expectations judged {len(violating)} of them")
    found = Judgement(outcome.to_json_dict())  # type: ignore[no-untyped-call]  # GX gives it no type
    for result, violators in zip(found.document["results"], violating, strict=True):
        if not result["success"] and is_critical(result.get("expectation_config") or {}):
            _answer(folder.pipeline.on_violation, result, violators, found)
    return found


def unknown_types(suite: Mapping[str, Any]) -> list[str]:
    """Returns the types that Great Expectations does not know, each with the nearest one that it knows.

    It would leave such an expectation out of the suite, with a line in a log.
    """
    known = list_registered_expectation_implementations()
    missing = {each["type"] for each in suite["expectations"]} - set(known)
    nearest = {each: get_close_matches(each, known, 1) for each in sorted(missing)}
    return [f"{each}; did you mean {near[0]}?" if near else each for each, near in nearest.items()]


def _suite(folder: PipelineFolder) -> gx.ExpectationSuite:
    given, name = folder.expectations or {}, folder.pipeline.name
    try:
        missing = unknown_types(given)
        suite = None if missing else gx.ExpectationSuite(**given)
    except Exception as error:  # noqa: BLE001 - the same, and a suite of another form
        raise _cannot_be_run(folder, error) from None
    if suite is None:
        said = f"{name}: expectations.json: Great Expectations has no {', no '.join(missing)}"
        raise BadData(said, next_command=f"lockstep check {name}")
    return suite


def _cannot_be_run(folder: PipelineFolder, error: Exception) -> BadData:
    return BadData(f"{folder.pipeline.name}: expectations.json cannot be run: {last_line(error)}")


def _answer(default: str, result: dict[str, Any], rows: Iterable[dict[str, Any]], found: Judgement) -> None:
    """Adds the consequence of a failed expectation: records to quarantine, or else a refusal.

    It quarantines only if the expectation allows that and names the records.
    """
    config, rows = result["expectation_config"], list(rows)
    if on_violation(default, config) != QUARANTINE:
        found.refusals.append(_violation(result))
        return
    if not rows:
        found.refusals.append(f"{_violation(result)}, and it names no records that could be quarantined")
        return
    if result["result"]["unexpected_count"] > len(rows):
        found.refusals.append(f"{_violation(result)}, and more than {ROWS_LOOKED_UP} are not quarantined")
        return
    named = {
        (row["_stream"], row["_offset"]): quarantine_reason(config["type"], config["kwargs"], row)
        for row in reversed(rows)
    }
    result["quarantined"] = len(named)
    found.violators = named | found.violators  # the suite's first expectation gives the reason


def _violation(result: dict[str, Any]) -> str:
    config = result["expectation_config"]
    what = f"{config['type']} on {', '.join(expected_columns(config['kwargs'])) or 'the rows'} failed"
    if (result.get("exception_info") or {}).get("raised_exception"):
        return f"{what}: {result['exception_info'].get('exception_message', 'it raised an error')}"
    outcome = result.get("result") or {}
    rows = outcome.get("partial_unexpected_index_list") or []
    where = ", ".join(f"stream {row['_stream']} offset {row['_offset']}" for row in rows[:3])
    return f"{what} for {outcome['unexpected_count']} rows, such as {where}" if rows else what


def _keep_few(result: dict[str, Any]) -> None:
    for name, value in result.items():
        if isinstance(value, list):
            result[name] = value[:COORDINATES_KEPT]


def judging_session(dsn: str, attempt: AttemptId) -> JudgeConnection:
    """Returns a session that reads the attempt's rows and no other table, and writes nothing.

    Raises `Superseded` if the attempt has no judgement to come.
    """
    made = open_stager(staging_dsn(dsn, "lockstep validate"), connection_factory=JudgeConnection)
    conn = cast("JudgeConnection", made)
    try:
        with conn.cursor() as cur:
            cur.execute("set local statement_timeout = 0")  # it looks at all rows of the batch
            show_to_judge(cur, attempt)
            become(cur, JUDGE_ROLE)
        conn.hold()
    except BaseException:
        conn.close()
        raise
    return conn


def serve_judge() -> None:
    """Answers what a process asks of its judge, over standard input and output, until its questions end.

    The answer is the judgement, or None: the process then judges by itself, and says what is wrong.
    """
    logging.disable()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a library's words are no answer
    while True:
        try:
            question = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that has started this one
        except EOFError:
            return
        found = None
        with suppress(Exception):
            found = judge_rows(*question)
        pickle.dump(found, answers)
        answers.flush()


if __name__ == "__main__":
    serve_judge()
