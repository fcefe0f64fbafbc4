"""Writes each step's result into its task's log: lines for people, and one line of JSON for machines."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import get_current_context

from lockstep.adapters.airflow.names import conf
from lockstep.adapters.postgres import READER, transaction
from lockstep.airflow import witness
from lockstep.core.changes.row_changes import RowChange
from lockstep.core.pipeline.names import pipeline_of_dag
from lockstep.core.proof import verdict
from lockstep.core.states import BatchState
from lockstep.core.text import json_plain
from lockstep.ledger.batch import results
from lockstep.ledger.views import one_batch, reading
from lockstep.steps.inspect.lines import batch_lines, range_document, range_lines, route_lines, spark_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow.sdk import Asset

    from lockstep.core.planning.requests import Request
    from lockstep.core.staging import AttemptId
    from lockstep.ledger.views.reading import Document
    from lockstep.steps.context import Context

log = logging.getLogger(__name__)
VERSION = 1  # of the JSON. Each line of it begins with {"lockstep": 1
LOGGED_COUNTS = ("delivered", "written", "rejected", "filtered")
OF_A_BATCH = ("pipeline", "batch", "lane", "state")
OF_A_COMMIT = ("rows_written", "rows_rejected")


def log_facts(step: str, lines: Iterable[str], facts: Mapping[str, Any]) -> None:
    """Writes lines for people, then the facts as one line of JSON."""
    for line in lines:
        log.info("%s", line)
    document = {"lockstep": VERSION, "step": step, **facts}
    log.info("%s", json.dumps(document, default=json_plain, ensure_ascii=False))


def say_batch(at: Context, step: str, batch_id: int, **more: Any) -> None:
    """Writes a batch as the command line prints it, with its page. `more` are further facts, such as its size."""
    facts = _facts(_batch(at, batch_id)) | more
    log_facts(step, [*batch_lines(facts), *range_lines(facts["ranges"]), f"  page: {facts['page']}"], facts)


def say_staged(at: Context, attempt: AttemptId) -> None:
    """Writes what an attempt has read: the tasks' reports, or the ranges that tasks have committed by themselves."""
    found = _batch(at, attempt.batch_id)
    facts = _facts(found)
    if not any("delivered" in row for row in facts["ranges"]):
        facts["ranges"] = _staged(at, attempt, facts["ranges"])
    newest = found["attempts"][-1]
    facts |= {
        "engine": found["engine"],
        "route": newest["route"],
        "spark_application_id": newest["spark_application_id"],
    }
    facts["spark_records"] = (newest["spark"] or {}).get("records")
    delivered = sum(row.get("delivered") or 0 for row in facts["ranges"])
    read = [*route_lines(newest["route"]), *spark_lines(newest, delivered)]
    lines = [*batch_lines(facts), *read, *range_lines(facts["ranges"])]
    log_facts("stage", [*lines, f"  page: {facts['page']}"], facts)


def say_verdict(at: Context, batch_id: int) -> None:
    """Writes what validation has found, whether it refuses the batch or not."""
    found = _batch(at, batch_id)
    facts = _facts(found)
    with transaction(at.conn, READER) as cur:
        partitions = one_batch.partitions_of_batch(cur, batch_id)
    del facts["ranges"]
    facts["verdict"] = verdict.summary(found["verdict"], partitions)
    lines = verdict.lines(found["verdict"], partitions)
    log_facts("validate", [*batch_lines(facts), *lines, f"  page: {facts['page']}"], facts)


def say_announced(
    pipeline: str,
    batches: Sequence[int],
    assets: Sequence[Asset],
    ranges: Sequence[Mapping[str, Any]],
    streams: Sequence[Mapping[str, Any]],
    *,
    is_traced: bool,
) -> None:
    """Writes what was announced, to which assets, and how far the pipeline is behind."""
    gauges, sums = witness.worst_lag(streams), witness.batch_counts(ranges)
    news = [f"batch {', '.join(map(str, batches))}  announced  {sums['written']} written, {sums['rejected']} rejected"]
    news += [f"  asset: {asset.uri}" for asset in assets]
    if "lag_records" in gauges:
        seconds = f", {gauges['lag_seconds']:.1f} s" if "lag_seconds" in gauges else ""
        news.append(f"  lag: {gauges['lag_records']} records{seconds}")
    facts = {"pipeline": pipeline, "batches": list(batches), **sums, **gauges}
    log_facts("announce", news, facts | {"assets": [asset.uri for asset in assets], "openlineage": is_traced})


def say_requests(pipeline: str, action: str, opened: Sequence[Request]) -> None:
    """Writes the requests of a history run, and the offsets of each."""
    lines, found = [], []
    for each in opened:
        ranges = [range_document(item) for item in each.windows]
        verb = "goes on with" if each.goes_on else "is"
        lines += [f"{action} of {pipeline} {verb} request {each.request_id}", *range_lines(ranges)]
        found.append({"request": each.request_id, "goes_on": each.goes_on, "ranges": ranges})
    log_facts("ask", lines, {"pipeline": pipeline, "action": action, "requests": found})


def log_differences(pipeline: str, called: Sequence[Request]) -> None:
    """Writes how many rows each previewed request would add, change, remove and leave, without their values."""
    lines, found = [], []
    for each in called:
        told = each.rehearsal.difference if each.rehearsal else {}
        counts = {kind: told.get(kind, 0) for kind in RowChange}
        lines.append(f"{each.lane} of {pipeline}, request {each.request_id}: {_counted(counts)}")
        found.append({"request": each.request_id, "lane": each.lane, "rejects": told.get("rejects")} | counts)
    log_facts("rehearse", [*lines, "nothing was changed"], {"pipeline": pipeline, "requests": found})


def _counted(counts: Mapping[RowChange, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in counts.items())


def _batch(at: Context, batch_id: int) -> Document:
    with transaction(at.conn, READER) as cur:
        found = reading.read_batch(cur, batch_id)
    if found is None:
        raise AssertionError(batch_id)
    return found


def _facts(found: Document) -> dict[str, Any]:
    newest = found["attempts"][-1] if found["attempts"] else None
    facts = {name: found[name] for name in OF_A_BATCH}
    if newest:
        facts["attempt"] = newest["attempt"]
        facts["state"] = found["state"] if found["state"] != BatchState.PLANNED else newest["state"]
    if found["state"] == BatchState.COMMITTED:
        facts |= {name: found[name] for name in OF_A_COMMIT}
    seconds = {name: spent for name, spent in found["seconds"].items() if spent is not None}
    return facts | {
        "seconds": seconds,
        "ranges": _known(found["ranges"]),
        "page": _page(found["pipeline"], found["batch"]),
    }


def _known(ranges: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns ranges without the counts that are not known yet."""
    return [
        {
            name: value
            for name, value in row.items()
            if name != "attempt" and (name not in LOGGED_COUNTS or value is not None)
        }
        for row in ranges
    ]


def _staged(at: Context, attempt: AttemptId, ranges: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    with transaction(at.conn, READER) as cur:
        totals = {(row.topic, row.partition, row.from_offset): row for row in results.stream_totals(cur, attempt)}
    found = []
    for row in ranges:
        told = totals[row["topic"], row["partition"], row["from_offset"]]
        filtered = told.delivered - told.written - told.rejected
        counts = (told.delivered, told.written, told.rejected, filtered)
        found.append(row | dict(zip(LOGGED_COUNTS, counts, strict=True)))
    return found


def _page(pipeline: str, batch_id: int) -> str:
    """Returns the address of the batch's page, below Airflow's own. If that is not set, returns the path alone."""
    dag_id = get_current_context()["ti"].dag_id
    of = dag_id if pipeline_of_dag(dag_id) == pipeline else pipeline  # the DAG of a fleet has no pages
    base = (conf.get("api", "base_url", fallback="") or "").rstrip("/")
    return f"{base}/lockstep/dags/{quote(of)}/batches/{batch_id}"
