"""Defines `status`, which says how healthy each pipeline is, and how far each stream."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.history import OfLedger, known_pipeline
from lockstep.cli.options import OneName
from lockstep.cli.output import AsJson, say, say_table, say_warnings, show, shown_watermark
from lockstep.context.systems import broker, open_ledger, paused_dags
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.health.health import Health, duration
from lockstep.core.text import cell

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.ledger.views.reading import Document

All = Annotated[bool, typer.Option("--all", help="Also forgotten pipelines, and those without a folder here.")]


def status_command(name: OneName = None, everything: All = False, as_json: AsJson = False) -> None:
    """Say each pipeline's health, and how far each stream is: position, bounds, lag, holes.

    The health is the worst of: failing, blocked, unknown, interrupted, behind, holes, warned, not planned yet, off,
    paused. Else it is well. `off` is said of the embedded Airflow alone: of another one, nothing is known here.
    Without NAME, of each pipeline that has a folder here and was not forgotten. --all tells the ledger's others, too.
    """
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.changes.forgotten import names_in_ledger as of_ledger
    from lockstep.steps.inspect.status import status as ask
    from lockstep.steps.inspect.status import status_of_ledger

    now = datetime.now(UTC)
    if name is not None:
        if everything:
            raise typer.BadParameter("it is for the list of all pipelines: leave NAME out", param_hint="--all")
        found = known_pipeline(name)
        with open_ledger() as conn:
            document = (
                status_of_ledger(conn, name, now)
                if isinstance(found, OfLedger)
                else ask(conn, broker(), found.pipeline, now, dag_paused=paused_dags().get(name), folder=found)
            )
        show(document, as_json, lambda: say_status(document))
        return
    names = folders.pipeline_names()
    with open_ledger() as conn:
        with transaction(conn, READER) as cur:
            recorded = of_ledger(cur)
        kafka = broker()
        paused = paused_dags()
        shown = [each for each in names if everything or not recorded.get(each)]
        loaded = folders.load_each(shown)
        documents = [_status_or_error(conn, kafka, each, loaded[each], now, paused.get(each)) for each in shown]
        if everything:
            documents += [status_of_ledger(conn, each, now) for each in recorded if each not in names]
    show({"pipelines": documents}, as_json, lambda: _say_each_status(documents))


def _status_or_error(
    conn: connection,
    kafka: Broker,
    name: str,
    folder: PipelineFolder | Refusal,
    now: datetime,
    dag_paused: bool | None,
) -> Document:
    """Returns a pipeline's status, or its error, so that one mistake does not hide the other pipelines.

    Raises `Unreachable`, because a system that is away concerns them all.
    """
    from lockstep.steps.inspect.status import status as ask

    try:
        if isinstance(folder, Refusal):
            raise folder
        return ask(conn, kafka, folder.pipeline, now, dag_paused=dag_paused, folder=folder)
    except Unreachable:
        raise
    except Refusal as refusal:
        return {
            "pipeline": name,
            "health": Health.UNKNOWN,
            "error": refusal.message,
            "next": refusal.next_command,
        }


def _say_each_status(found: list[Document]) -> None:
    for document in found:
        say_status(document)


def say_status(document: Document) -> None:
    """Prints a pipeline's health and its streams as a table, with unfinished batches, open requests and warnings."""
    if "error" in document:
        say(f"{document['pipeline']}  {document['error']}  Next: {document['next']}")
        return
    state = f"  under way: batch {cell(document['under_way'])}" if document["under_way"] else ""
    if ended := document["forgotten"]:
        state += f"  by {ended['who']} at {cell(ended['at'])}: {ended['why']}"
    say(f"{document['pipeline']}  {document['health']}{state}")
    for condition in document["conditions"]:
        if condition["state"] is not Health.WARNED:
            go_on = f"  Next: {condition['next']}" if condition["next"] else ""
            say(f"  {condition['state']}: {condition['message']}.{go_on}")
    if document["streams"]:
        columns = ["position", "log_start", "stable_end", "lag_records", "behind", "holes"]
        names = ["  partition", "position>", "log start>", "stable end>", "lag>", "behind>", "holes>"]
        streams = [s | {"behind": _behind(s["lag_seconds"])} for s in document["streams"]]
        rows = [[f"  {s['topic']}-{s['partition']}", *(s[column] for column in columns)] for s in streams]
        say_table(names, rows)
    if promoted := document["promoted"]:
        starts = ", ".join(f"{each['topic']}-{each['partition']}:{each['offset']}" for each in promoted["from"])
        say(
            f"  {promoted['file']} makes the rows from {starts} on: decision {promoted['decision']} of {promoted['who']}"
        )
    if document["complete_through"]:
        say(f"  complete through {cell(document['complete_through'])}")
    _say_feeds(document)
    if not document["asks_kafka"]:
        say("  of the ledger alone: there is no folder here, so Kafka was not asked for bounds and lag")
    for asked in document["requests"]:
        go_on = f"lockstep {asked['lane']} {document['pipeline']} --request {asked['request']}"
        say(f"  {asked['lane']} is not complete: {asked['why']}.  Next: {go_on}")
    say_warnings(document["warnings"])


def _say_feeds(document: Document) -> None:
    if "watermark" in document:
        say(f"  the watermark is {shown_watermark(document['watermark'])}; {document['late_rows']} rows were late")
    for feed in document["feeds"]:
        stands = f"set {feed['last_seq']} is the newest, changes [{feed['kept_from']}, {feed['next_number']}) are kept"
        say(f"  feed of {feed['target']}: {stands if feed['last_seq'] else 'no change set yet'}")
        if feed["topic"]:
            late = f", the oldest for {duration(feed['behind_seconds'])}" if feed["behind"] else ""
            by = f", {feed['relay']} sends" if feed["relay"] else ""
            say(f"    to {feed['topic']}: {feed['confirmed']} are sent, {feed['behind']} wait{late}{by}")


def _behind(seconds: float | None) -> str | None:
    return None if seconds is None else duration(seconds)
