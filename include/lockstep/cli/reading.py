"""Defines the commands that read the ledger: `status`, `batches`, `batch`, and `verify`, which proves it again."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli import certifying
from lockstep.cli.options import BatchId, Name, OneName
from lockstep.cli.output import AsJson, cell, print_batch, say, say_table, say_warnings, show
from lockstep.cli.surroundings import broker, ledger, registry, results_elsewhere
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.violations import columns_of

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.adapters.kafka import Broker
    from lockstep.ledger.reading import Document

Last = Annotated[int | None, typer.Option(help="Only the newest so many.", min=1, show_default=False)]
Certificate = Annotated[str | None, typer.Option(help="Prove this certificate.", metavar="FILE", show_default=False)]
PublicKey = Annotated[
    str | None,
    typer.Option(help="The public key of who signed it, PEM.", metavar="FILE", show_default=False),
]
Deep = Annotated[
    bool, typer.Option("--deep", help="Read Kafka again and compare each record with its rows, values included.")
]


def status(name: OneName = None, as_json: AsJson = False) -> None:
    """Say how far each stream is: position, bounds, lag, holes."""
    from lockstep.steps.status import status as ask

    now = datetime.now(UTC)
    if name is not None:
        pipeline = folders.load(name).pipeline
        with ledger() as conn:
            document = ask(conn, broker(), pipeline, now)
        show(document, as_json, lambda: say_status(document))
        return
    names = folders.names()
    with ledger() as conn:
        kafka = broker()
        documents = [_status_or_error(conn, kafka, each, now) for each in names]
    show({"pipelines": documents}, as_json, lambda: _say_each_status(documents))


def batches(name: Name, last: Last = None, as_json: AsJson = False) -> None:
    """Show a pipeline's history, the newest batch last."""
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger import reading

    pipeline = folders.load(name).pipeline
    with ledger() as conn, transaction(conn, READER) as cur:
        found = reading.batches(cur, pipeline.name, last)
    show({"pipeline": name, "batches": found}, as_json, lambda: _say_batches(name, found))


def batch(batch_id: BatchId, as_json: AsJson = False) -> None:
    """Show one batch: ranges, attempts, verdict, timings."""
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger import reading

    with ledger() as conn, transaction(conn, READER) as cur:
        found = reading.batch(cur, batch_id)
    if found is None:
        raise Refusal(f"the ledger has no batch {batch_id}", next_command="lockstep batches NAME")
    show(found, as_json, lambda: _say_batch(found))


def verify(
    name: OneName = None,
    deep: Deep = False,
    certificate: Certificate = None,
    public_key: PublicKey = None,
    as_json: AsJson = False,
) -> None:
    """Prove the promises again, and say how far.

    Compares the ledger with itself, and the target's coordinates with the ledger: the rows, and the batch of each. With
    --deep, reads Kafka again. Each record then has its rows or its reject, once (coordinates). The rows then hold what
    the record decodes to (contents). Not compared: what a transform makes, and what Kafka no longer holds. The last
    line names the compared sides. Refuses a definition that is not the ledger's. With --certificate, proves that file
    instead: by its key alone, and with NAME by the ledger, too.
    """
    if certificate is not None:
        certifying.prove(certificate, public_key, name, as_json)
        return
    if name is None or public_key is not None:
        missing = "NAME" if name is None else "--certificate"
        raise typer.BadParameter("a pipeline, or a certificate with its public key, please", param_hint=missing)
    from lockstep.core.verification import conclusion, proofs
    from lockstep.steps.verify import verify as prove

    folder = folders.load(name)
    with ledger() as conn:
        elsewhere = results_elsewhere(folder.pipeline)
        checks = prove(conn, broker(), folder, deep=deep, results=elsewhere, registry=registry())
    ok = all(check.ok for check in checks)
    proved = proofs([target.table for target in folder.pipeline.targets], checks)
    said = conclusion(name, proved, checks)
    left_out = [{"target": c.target, "check": c.name, "what": c.left_out} for c in checks if c.left_out]
    ends_here = deep or all(proof.contents in ("log", "wrong") for proof in proved)
    document = {
        "pipeline": name,
        "ok": ok,
        "deep": deep,
        "proved": [asdict(proof) for proof in proved],
        "not_compared": left_out,
        "checks": [asdict(check) for check in checks],
        "conclusion": said,
    }

    def for_people() -> None:
        rows = [["ok" if check.ok else "NO", check.name, check.detail] for check in checks]
        say_table(["", "check", "detail"], rows)
        for each in left_out:
            say(f"not compared: {each['what']}  ({each['check']})")
        say(said + ("" if ends_here else f"  Next: lockstep verify {name} --deep"))

    show(document, as_json, for_people)
    if not ok:
        raise typer.Exit(1)


def _status_or_error(conn: connection, kafka: Broker, name: str, now: datetime) -> Document:
    """Returns a pipeline's status, or its error, so that one mistake does not hide the other pipelines.

    Raises `Unreachable`, because a system that is away concerns them all.
    """
    from lockstep.steps.status import status as ask

    try:
        return ask(conn, kafka, folders.load(name).pipeline, now)
    except Unreachable:
        raise
    except Refusal as refusal:
        return {"pipeline": name, "error": refusal.message, "next": refusal.next_command}


def _say_each_status(found: list[Document]) -> None:
    for document in found:
        say_status(document)


def say_status(document: Document) -> None:
    """Prints a pipeline's streams as a table, with unfinished batches, open requests and warnings."""
    if "error" in document:
        say(f"{document['pipeline']}  {document['error']}  Next: {document['next']}")
        return
    state = "  paused" if document["paused"] else ""
    state += f"  unfinished: batch {cell(document['unfinished'])}" if document["unfinished"] else ""
    say(f"{document['pipeline']}{state or ('' if document['streams'] else '  not planned yet')}")
    if document["streams"]:
        columns = ["position", "log_start", "stable_end", "lag_records", "lag_seconds", "holes"]
        names = ["  partition", "position>", "log start>", "stable end>", "lag>", "seconds>", "holes>"]
        rows = [[f"  {s['topic']}-{s['partition']}", *(s[column] for column in columns)] for s in document["streams"]]
        say_table(names, rows)
    if document["complete_through"]:
        say(f"  complete through {cell(document['complete_through'])}")
    if any(stream["stable_end"] is None for stream in document["streams"]):
        say(f"  bounds are of another log than the one that was read.  Next: lockstep plan {document['pipeline']}")
    for asked in document["requests"]:
        go_on = f"lockstep {asked['lane']} {document['pipeline']} --request {asked['request']}"
        say(f"  {asked['lane']} is not complete: {asked['why']}.  Next: {go_on}")
    say_warnings(document["warnings"])


def _say_batches(name: str, found: list[Document]) -> None:
    if not found:
        say(f"{name}: no batch yet")
        return
    names = ["batch>", "lane", "state", "planned", "took>", "tries>", "written>", "rejected>"]
    columns = ("attempts", "rows_written", "rows_rejected")
    say_table(
        names,
        [
            [b["batch"], b["lane"], b["state"], b["planned_at"], _took(b["planned_at"], b), *(b[c] for c in columns)]
            for b in found
        ],
    )


def _say_batch(found: Document) -> None:
    times = f"planned {cell(found['planned_at'])}, closed {cell(found['closed_at'])}"
    say(f"{found['pipeline']}, {times}, keys {cell(found['keys'])}")
    print_batch(found)
    if found["attempts"]:
        names = ["attempt>", "state", "opened", "took>", "dag run", "owner"]
        say_table(
            names,
            [
                [a["attempt"], a["state"], a["opened_at"], _took(a["opened_at"], a), a["dag_run_id"], a["owner"]]
                for a in found["attempts"]
            ],
        )
    for attempt in found["attempts"]:
        if attempt["error"]:
            say(f"  attempt {attempt['attempt']}: {', '.join(attempt['error'].splitlines())}")
    if found["guarantee"] == "AtMostOnce" and found["state"] == "committed" and not found["delivered_at"]:
        say("  the store never confirmed the results: those of the offsets above may be lost.")
        say(f"  Next: lockstep replay {found['pipeline']} --batch {found['batch']}")
    if verdict := found["verdict"]:
        say(f"  verdict of attempt {verdict['attempt']}: {'passed' if verdict['success'] else 'refused'}")
        for result in verdict["result"].get("results", []):
            if verdict["success"] and result.get("quarantined"):
                config = result["expectation_config"]
                where = ", ".join(columns_of(config["kwargs"]))
                say(f"  {result['quarantined']} records quarantined by {config['type']}({where})")


def _took(begin: datetime, document: Document) -> str | None:
    end = document["closed_at"]
    return f"{(end - begin).total_seconds():.1f} s" if end else None
