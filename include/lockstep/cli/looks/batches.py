"""Defines `batches` and `batch`, which show what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.cli.history import refuse_unknown
from lockstep.cli.options import BatchId, Name
from lockstep.cli.output import AsJson, print_batch, say, say_table, show, shown_watermark
from lockstep.context.systems import open_ledger
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.violations import expected_columns
from lockstep.core.states import BatchState
from lockstep.core.text import cell
from lockstep.steps.inspect.lines import format_offsets, route_lines

if TYPE_CHECKING:
    from datetime import datetime

    from lockstep.ledger.views.reading import Document

STAGE_COLUMNS = ["  stage>", "what", "state", "seconds>", "tasks>", "failed>", "median>", "longest>", "gc>"]
STAGE_FIELDS = ("name", "state", "seconds", "tasks", "failed_tasks", "median_seconds", "longest_seconds", "gc_seconds")
NewestOption = Annotated[int | None, typer.Option(help="Only the newest so many.", min=1, show_default=False)]


def batches_command(name: Name, last: NewestOption = None, as_json: AsJson = False) -> None:
    """Show a pipeline's history, the newest batch last."""
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.views import reading

    refuse_unknown(name)
    with open_ledger() as conn, transaction(conn, READER) as cur:
        found = reading.read_batches(cur, name, last)
    show({"pipeline": name, "batches": found}, as_json, lambda: _say_batches(name, found))


def batch_command(batch_id: BatchId, as_json: AsJson = False) -> None:
    """Show one batch: ranges, attempts, verdict, timings."""
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.feed.reading import read_change_sets
    from lockstep.ledger.lake.told import moves_of_batch
    from lockstep.ledger.views import reading
    from lockstep.ledger.windows.reading import judged_by

    with open_ledger() as conn, transaction(conn, READER) as cur:
        found = reading.read_batch(cur, batch_id)
        change_sets = read_change_sets(cur, batch_id)
        judged = judged_by(cur, batch_id)
        in_lake = moves_of_batch(cur, batch_id)
    if found is None:
        raise Refusal(f"the ledger has no batch {batch_id}", next_command="lockstep batches NAME")
    document = found | {"change_sets": change_sets, "lake": in_lake} | judged
    show(document, as_json, lambda: _say_batch(document))


def _say_batches(name: str, found: list[Document]) -> None:
    if not found:
        say(f"{name}: no batch yet")
        return
    names = ["batch>", "lane", "state", "engine", "planned", "took>", "tries>", "written>", "rejected>"]
    columns = ("attempts", "rows_written", "rows_rejected")
    say_table(
        names,
        [
            [*(b[name] for name in ("batch", "lane", "state", "engine", "planned_at")), _took(b["planned_at"], b)]
            + [b[name] for name in columns]
            for b in found
        ],
    )


def _say_batch(found: Document) -> None:
    times = f"planned {cell(found['planned_at'])}, closed {cell(found['closed_at'])}"
    say(f"{found['pipeline']}, {times}, keys {cell(found['keys'])}")
    print_batch(found)
    _say_judgement(found)
    _say_unavailable(found["effect"] or {})
    for each in found["change_sets"]:
        where = f", {each['topic']}-{each['partition']} {format_offsets(each)}" if each["topic"] else ""
        say(f"  change set {each['seq']} of {each['target']}{where}: {_counts(each)}")
    _say_lake(found["lake"])
    if found["attempts"]:
        for line in route_lines(found["attempts"][-1]["route"]):
            say(line)
        names = ["attempt>", "state", "opened", "took>", "dag run", "owner"]
        say_table(
            names,
            [
                [a["attempt"], a["state"], a["opened_at"], _took(a["opened_at"], a), a["dag_run_id"], a["owner"]]
                for a in found["attempts"]
            ],
        )
    for attempt in found["attempts"]:
        _say_stages(attempt)
        if attempt["error"]:
            say(f"  attempt {attempt['attempt']}: {', '.join(attempt['error'].splitlines())}")
    if found["guarantee"] == "AtMostOnce" and found["state"] == BatchState.COMMITTED and not found["delivered_at"]:
        say("  the store never confirmed the results: those of the offsets above may be lost.")
        say(f"  Next: lockstep replay {found['pipeline']} --batch {found['batch']}")
    if verdict := found["verdict"]:
        say(f"  verdict of attempt {verdict['attempt']}: {'passed' if verdict['success'] else 'refused'}")
        for result in verdict["result"].get("results", []):
            if verdict["success"] and result.get("quarantined"):
                config = result["expectation_config"]
                where = ", ".join(expected_columns(config["kwargs"]))
                say(f"  {result['quarantined']} records quarantined by {config['type']}({where})")


def _say_lake(moves: list[Document]) -> None:
    """Prints what the commit did to each table of the lake."""
    for each in moves:
        out = f", {each['removed_files']} taken out" if each["removed_files"] else ""
        brought = f"{each['files']} files, {each['rows']} rows, {each['size']}{out}"
        say(f"  {each['target']}: snapshot {each['snapshot_id']}, {brought}")
        say(f"    {each['before']} before")
        say(f"    {each['after']} after")


def _say_judgement(found: Document) -> None:
    if found["watermark"] or found["late"]:
        late = ", ".join(f"{rows} rows were late for {table}" for table, rows in found["late"].items())
        say(f"  judged by the watermark {shown_watermark(found['watermark'])}: {late or 'no row was late'}")


def _say_unavailable(effect: Document) -> None:
    """Prints how many values of change records nothing has. Several targets have an effect each, by table."""
    each = effect if all(isinstance(its, dict) for its in effect.values()) else {"": effect}
    for table, its in each.items():
        if its.get("unavailable"):
            of = f" of {table}" if table else ""
            say(
                f"  {its['unavailable']} values{of} were in no record and no row, and are null: a snapshot fills them in"
            )


def _counts(change_set: Document) -> str:
    if change_set["inserted"] is None:
        return f"{change_set['changes']} in all, and their rows are trimmed"
    return ", ".join(f"{change_set[kind]} {kind}" for kind in ("inserted", "updated", "deleted"))


def _took(begin: datetime, document: Document) -> str | None:
    end = document["closed_at"]
    return f"{(end - begin).total_seconds():.1f} s" if end else None


def _say_stages(attempt: Document) -> None:
    """Prints what Spark says of the attempt: its memory, its event log and its stages. Prints nothing without Spark."""
    spark, log = attempt["spark"], attempt["spark_event_log"]
    if log:
        say(f"  attempt {attempt['attempt']}: Spark's event log is {log}")
    if not spark or spark["stages_run"] is None:
        return
    peak, limit = (_mebibytes(spark[name]) for name in ("heap_peak_bytes", "heap_limit_bytes"))
    collected = cell(round(spark["gc_seconds"], 3))
    if spark["records"] is not None:
        say(
            f"  attempt {attempt['attempt']}: Spark counted {spark['records']} records in {attempt['spark_application_id']}"
        )
    say(f"  attempt {attempt['attempt']}: Spark's heap {peak} of {limit} MiB, garbage collection {collected} s")
    if spark["stages"]:
        rows = [
            [f"{stage['stage']}.{stage['try_number']}", *(stage[name] for name in STAGE_FIELDS)]
            for stage in spark["stages"]
        ]
        say_table(STAGE_COLUMNS, rows)


def _mebibytes(size: int | None) -> str:
    return cell(None if size is None else size // 2**20)
