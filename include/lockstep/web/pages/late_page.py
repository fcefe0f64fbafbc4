"""Renders late records: which window each one missed, by how much, and if a decision admits it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import partial as bound
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.core.errors import Refusal
from lockstep.core.pipeline.names import pipeline_of_dag
from lockstep.ledger.windows.reading import LatePlace, read_late, time_facts
from lockstep.steps.windows.judge_events import FEW_LATE
from lockstep.web.pages.time_page import chosen_windows, timed_pipeline
from lockstep.web.place import reading_ledger, remembered
from lockstep.web.render import page

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Windows
    from lockstep.ledger.views.reading import Document

LATE_PER_PAGE = 50
UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE = re.compile(r"(\d{1,18})\.(\d{1,9})\.(\d{1,18})\.(\d{1,9})\.(-?\d{1,18})", re.ASCII)


def late_page(dag_id: str, table: str, partition: int | None, before: str) -> str:
    """Renders the late records of a target with windows, the newest first, of one partition or of all."""
    name = pipeline_of_dag(dag_id)
    pipeline = timed_pipeline(name)
    if pipeline is None:
        return page("late.html.jinja", dag_id=dag_id, pipeline=name, target=None)
    target, place = chosen_windows(pipeline, table), _place_of(before)
    with reading_ledger() as cur:
        count, by_window, records = read_late(cur, target.table, partition, LATE_PER_PAGE + 1, place)
    shown = records[:LATE_PER_PAGE]
    return page(
        "late.html.jinja",
        dag_id=dag_id,
        pipeline=name,
        target=target,
        tables=[each.table for each in pipeline.windows],
        partition=partition,
        count=count,
        share=_share(name, target),
        few=FEW_LATE,
        by_window=by_window[:LATE_PER_PAGE],
        widest=max((each["rows"] for each in by_window), default=1),
        records=shown,
        before=before,
        older=_written(shown[-1]) if len(records) > LATE_PER_PAGE else None,
    )


def _share(name: str, target: Windows) -> float | None:
    """Returns the share of the table's rows that was late, of some seconds ago. None while it is counted."""
    found: float | None = remembered(f"late {name} {target.table}", bound(_counted, name, target.table))
    return found


def _counted(name: str, table: str) -> float | None:
    try:
        with reading_ledger() as cur:
            found = time_facts(cur, name, [table])
    except Refusal:
        return None
    return found.late / max(found.late + found.counted, 1) if found else None


def _place_of(text: str) -> LatePlace | None:
    """Returns the row that a link of an earlier page names, or None for the newest. Answers 400 to another text."""
    if not text:
        return None
    found = _PLACE.fullmatch(text)
    if found is None:
        raise HTTPException(400, "before: names no late record; the links of the page do")
    batch, partition, offset, ordinal, start = (int(part) for part in found.groups())
    try:
        return LatePlace(batch, partition, offset, ordinal, UNIX_EPOCH + timedelta(microseconds=start))
    except OverflowError:
        raise HTTPException(400, "before: names a window that no calendar has") from None


def _written(record: Document) -> str:
    start: Any = (record["window_start"] - UNIX_EPOCH) // timedelta(microseconds=1)
    return ".".join(str(record[name]) for name in ("batch", "partition", "offset", "ordinal")) + f".{start}"
