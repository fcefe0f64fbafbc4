"""Checks a definition without running anything, and says each fault in one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from croniter import CroniterBadDateError, CroniterError, croniter

from lockstep.core.errors import BadDefinition, quoted
from lockstep.core.feed.feeds import feed_clash
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.columns import version_misfit
from lockstep.core.pipeline.definition import Custom, Files, Windows
from lockstep.core.pipeline.guarantees import NO_SUITE, commit_unit
from lockstep.core.pipeline.schedule import PRESETS
from lockstep.core.pipeline.stores import rows_table_of
from lockstep.core.pipeline.targets import History, Keyed, Send, WithTotals, filled_columns
from lockstep.core.pipeline.totals import misfits
from lockstep.core.pipeline.violations import ON_VIOLATION, QUARANTINE, no_expectation
from lockstep.core.states import CommitUnit
from lockstep.core.windows.event_time import event_time_fault
from lockstep.formats.own_code import function_of, refuse_vain_deletion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import EventTime, Pipeline, Target
    from lockstep.core.pipeline.folder import PipelineFolder

NO_CRON = ("@once", "@continuous")  # Airflow's own schedules beside cron
SEVERITIES = ("critical", "warning", "info")
_COMMENT = re.compile(r"('(?:[^']|'')*')|--[^\n]*|/\*.*?\*/", re.DOTALL)  # marks of a comment in a text begin none


def faults(folder: PipelineFolder, columns: Sequence[Sequence[Column]], place: str) -> list[str]:
    """Returns every fault of a definition that loads.

    `columns` are those that reach each target. `place` is the definition's folder.
    """
    names = [column.name for column in columns[0]]
    targets, time = zip(folder.pipeline.targets, columns, strict=True), folder.pipeline.event_time
    return [
        *(f"{place}/__init__.py: {fault}" for target, its in targets for fault in _of_target(target, its, time)),
        *(f"{place}/__init__.py: {fault}" for fault in _of_time(folder.pipeline)),
        *(f"{place}/__init__.py: {fault}" for fault in _of_violations(folder)),
        *(f"{place}/__init__.py: {fault}" for fault in _of_schedule(folder.pipeline.schedule)),
        *(f"{place}/expectations.json: {fault}" for fault in _of_suite(folder.expectations, names)),
        *(f"{place}/expectations.json: {fault}" for fault in _of_guarantee(folder)),
        *(f"{place}/target.sql: {fault}" for fault in _of_ddl(folder)),
        *(f"{place}/{fault}" for fault in _of_decoder(folder)),
    ]


def _of_time(pipeline: Pipeline) -> Iterator[str]:
    if pipeline.event_time is not None and not pipeline.windows:
        yield "event_time: no target is Windows, so nothing uses it: leave it out"


def _of_target(target: Target, columns: Sequence[Column], event_time: EventTime | None) -> Iterator[str]:
    if isinstance(target, Windows) and (fault := event_time_fault(event_time, columns)):
        yield fault
    if isinstance(target, WithTotals):
        yield from misfits(target.key, target.totals, {column.name: column.type for column in columns})
    names = [column.name for column in columns]
    if target.feed is not None and (clash := feed_clash(filled_columns(target) or names)):
        yield f"target.feed: {target.table} has {clash}"
    if isinstance(target, Keyed):
        wanted = {"target.key": target.key, "target.order_by": (target.order_by,) if target.order_by else ()}
        for field, given in wanted.items():
            for column in given:
                if column not in names:
                    yield f"{field}: {column!r} is no column ({', '.join(names)})"
    if isinstance(target, History) and (misfit := version_misfit(target.order_by, columns)):
        yield misfit


def _of_decoder(folder: PipelineFolder) -> Iterator[str]:
    format_ = folder.pipeline.format
    if isinstance(format_, Custom):
        try:
            function_of(format_.function, folder.decode)
            refuse_vain_deletion(format_, folder.decode, folder.pipeline.targets)
        except BadDefinition as fault:
            yield fault.message


def _of_violations(folder: PipelineFolder) -> Iterator[str]:
    if folder.pipeline.on_violation == QUARANTINE and folder.expectations is None:
        yield "on_violation: 'quarantine', and there is no expectations.json that could be violated"


def _of_schedule(schedule: str | None) -> Iterator[str]:
    if schedule is None or schedule in NO_CRON:
        return
    try:
        croniter(PRESETS.get(schedule, schedule)).get_next()
    except CroniterBadDateError:
        yield f"schedule: {quoted(schedule)} names no date that ever comes"
    except CroniterError:
        yield f"schedule: {quoted(schedule)} is no cron expression, such as '*/5 * * * *', and no preset, such as @daily"


def _of_guarantee(folder: PipelineFolder) -> Iterator[str]:
    if folder.expectations is not None and commit_unit(folder.pipeline.guarantee) == CommitUnit.STREAM:
        yield NO_SUITE


def _of_suite(suite: dict[str, Any] | None, names: Sequence[str]) -> Iterator[str]:
    if suite is None:
        return
    if not isinstance(suite.get("name"), str) or not suite["name"]:
        yield "name: must be a text"
    expectations = suite.get("expectations")
    if not isinstance(expectations, list):
        yield "expectations: must be a list"
        return
    found = [
        f"expectations[{number}]{field}: {fault}"
        for number, expectation in enumerate(expectations)
        for field, fault in _of_expectation(expectation, names)
    ]
    yield from found or _of_types(suite)


def _of_types(suite: dict[str, Any]) -> Iterator[str]:
    from lockstep.steps.batch.expectations import unknown_types  # noqa: PLC0415 - Great Expectations takes seconds to import

    for type_ in unknown_types(suite):
        yield f"Great Expectations has no {type_}"


def _of_expectation(expectation: Any, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not isinstance(expectation, dict):
        yield "", "must be an object with type and kwargs"
        return
    if why := no_expectation(expectation):
        yield ".type", why
    if "severity" in expectation and expectation["severity"] not in SEVERITIES:
        yield ".severity", f"{expectation['severity']!r} is not one of {', '.join(SEVERITIES)}"
    meta = expectation.get("meta", {})
    if not isinstance(meta, dict):
        yield ".meta", "must be an object"
    elif "on_violation" in meta and meta["on_violation"] not in ON_VIOLATION:
        yield ".meta.on_violation", f"{meta['on_violation']!r} is not one of {', '.join(ON_VIOLATION)}"
    kwargs = expectation.get("kwargs", {})
    if not isinstance(kwargs, dict):
        yield ".kwargs", "must be an object"
        return
    for argument in ("column", "column_A", "column_B"):
        column = kwargs.get(argument)
        if column is not None and column not in names and not str(column).startswith("_"):
            yield f".kwargs.{argument}", f"{column!r} is no column ({', '.join(names)})"


def _of_ddl(folder: PipelineFolder) -> Iterator[str]:
    targets = [target for target in folder.pipeline.targets if not isinstance(target, Send)]  # migrate makes its table
    tables = [target.table for target in targets if not isinstance(target.table, Iceberg)]
    if isinstance(folder.pipeline.store, Files) or not tables:
        return
    if folder.target_sql is None:
        yield f"missing; it creates {' and '.join(tables)}"
        return
    behind = {folder.pipeline.first.table: rows_table_of(folder.pipeline)}
    for table in tables:
        names = [name for name in (table, behind.get(table)) if name]
        if not any(_creates(folder.target_sql, name) for name in names):
            yield f"does not create the target {', nor behind a view '.join(names)}"


def _creates(ddl: str, table: str) -> bool:
    """Returns True if DDL creates a table of this name. Without a schema it is one of `public`."""
    schema, name = (rf'(?:"{part}"|{part})' for part in table.split("."))
    schema = rf"(?:{schema}\s*\.\s*){'?' if table.startswith('public.') else ''}"
    pattern = rf"\bcreate\s+(?:unlogged\s+)?table\s+(?:if\s+not\s+exists\s+)?{schema}{name}(?![\w$.])"
    return bool(re.search(pattern, _COMMENT.sub(lambda found: found[1] or " ", ddl), re.IGNORECASE))
