"""Searches the ledger for a key that was erased, by the catalog, so that no new table is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.changes.erasure import needles_of
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Target
    from lockstep.ledger.changes.erasures import Subject

Q = queries("lockstep.ledger.changes", "search")

# Columns of these names hold names, states and digests of the ledger in every table, and nothing of a record.
LEDGER_NAMES = frozenset({
    "pipeline", "former", "target", "topic", "topic_id", "cluster_id", "first_topic", "lane", "state", "kind", "unit",
    "definition_hash", "content_hash", "code_version", "digest", "erased_digest", "sha256", "hash", "salt",
    "checksum", "owner", "dag_id", "dag_run_id", "task_id", "task_instance_id", "log_starts", "program", "os_user",
    "told_by", "spark_application_id", "spark_ui", "spark_event_log", "held_by", "transactional_id", "effect",
    "fault", "route",
})  # fmt: skip
# Columns that `erase` does not search, each with the reason.
UNSEARCHED_COLUMNS = {
    "lockstep.definition.document": "the definition, written by the pipeline's author",
    "lockstep.decision.who": "named by the number of its decision",
    "lockstep.decision.why": "named by the number of its decision",
    "lockstep.decision.detail": "named by the number of its decision",
    "lockstep.request.who": "named by the number of its request",
    "lockstep.request.why": "named by the number of its request",
    "lockstep.complete_hour.proof": "batches and offsets",
    "lockstep.lake_file.path": "an address of the lake",
    "lockstep.lake_file.streams": "streams and counts",
    "lockstep.lake_file.digests": "digests",
    "lockstep.archived.path": "an address of the archive",
}
# By which query a table's rows are those of a pipeline, by the first of these columns that it has.
SCOPES = {
    "pipeline": "of_pipeline",
    "stream_id": "of_stream",
    "batch_id": "of_batch",
    "request_id": "of_request",
    "target": "of_target",
}


def left_over(cur: cursor, subject: Subject, targets: Sequence[Target]) -> list[str]:
    """Names in words each place that still holds the key and cannot be erased. Call it as the reader."""
    facts: dict[str, Any] = {
        "pipeline": subject.pipeline,
        "pattern": subject.pattern,
        "needles": list(needles_of(*subject.spellings)),
        "targets": [target.table for target in targets],
    }
    cur.execute(Q["still_told"], facts)
    found = [row.what for row in every(cur)]
    for target in targets:
        cur.execute(sql.SQL(Q["still_held"]).format(target=table_name(target.table)), facts)
        if rows := one(cur).rows:
            found.append(f"{rows} rows of {target.table}, in another column or of another pipeline")
    cur.execute(
        Q["searched_tables"], {"names": list(LEDGER_NAMES), "known": list(UNSEARCHED_COLUMNS), "scopes": list(SCOPES)}
    )
    for table in every(cur):
        found += _in_table(cur, table, facts) if table.is_readable else [_unread(table)]
    return found


def _in_table(cur: cursor, table: Any, facts: dict[str, Any]) -> list[str]:
    counts = sql.SQL(", ").join(
        sql.SQL(Q["in_bytes" if kind == "bytea" else "in_text"]).format(column=sql.Identifier(name))
        for name, kind in zip(table.columns, table.kinds, strict=True)
    )
    scope = sql.SQL(Q[SCOPES[table.scope]]) if table.scope else sql.SQL("true")
    cur.execute(
        sql.SQL(Q["rows_that_hold"]).format(table=sql.Identifier(table.schema, table.name), counts=counts, scope=scope),
        facts,
    )
    rows: list[int] = one(cur).rows
    where = f"{table.schema}.{table.name}"
    return [f"{number} rows of {where}, in {name}" for name, number in zip(table.columns, rows, strict=True) if number]


def _unread(table: Any) -> str:
    return f"{table.schema}.{table.name} was not searched: lockstep_reader may not read it"
