"""Checks rows of appended targets, and rejects, against the digests of their commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.lake.iceberg import LakeCopy
from lockstep.core.pipeline.definition import Append, History, Upsert
from lockstep.core.pipeline.guarantees import Delivered
from lockstep.core.proof.verification import PromiseCheck, Share, Wrong
from lockstep.ledger.feed.sends import trimmed_segments
from lockstep.ledger.proof.verify import check_name
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, one
from lockstep.ledger.staging import digests

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Pipeline, Target
    from lockstep.core.proof.verification import BatchesSince

Q = queries("lockstep.ledger.proof", "verify_contents")
CONTENTS_AS_COMMITTED = "contents are those that were committed"
REJECTS = "rejects are those that were committed"
VALUES_OF_KEYS = "values of keyed rows"


def contents_checks(cur: cursor, pipeline: Pipeline, since: BatchesSince | None = None) -> list[PromiseCheck]:
    """Compares the digests of every batch and stream: a check for each appended target, and one for the rejects.

    With a `since`, it compares the rows of those batches alone, found by their offsets.
    """
    cur.execute(Q["segments"], {"pipeline": pipeline.name})
    known = one(cur)
    before = [f"{known.before} batches were committed before digests were kept"] if known.before else []
    appended = [
        target
        for target in pipeline.targets
        if isinstance(target, Append) and not isinstance(pipeline.guarantee, Delivered)
    ]
    return [*(_of_target(cur, pipeline, target, before, since) for target in appended), _of_rejects(cur, pipeline)]


def values_left_out(pipeline: Pipeline) -> list[PromiseCheck]:
    """Names the upserted tables of the database whose values the ledger cannot prove: a deep look alone compares them."""
    return [
        PromiseCheck(
            check_name(pipeline, target, VALUES_OF_KEYS),
            ok=True,
            detail="not compared",
            target=target.table,
            left_out=f"the values in {target.table}: the ledger has no digest of them;"
            f" next: lockstep verify {pipeline.name} --deep",
        )
        for target in pipeline.targets
        if isinstance(target, Upsert) and not isinstance(target.table, LakeCopy)
    ]


def _of_target(
    cur: cursor, pipeline: Pipeline, target: Target, before: list[str], since: BatchesSince | None
) -> PromiseCheck:
    now = digests.digest_columns(cur, target.table)
    types, compared, others, left_out, wrong = dict(now), 0, 0, [*before], Wrong()
    if trimmed := trimmed_segments(cur, target.table):
        left_out.append(trimmed)
    for shape in shapes_of(cur, target.table):
        facts = {"pipeline": pipeline.name, "target": target.table, "shape_id": shape.shape_id, "place": shape.place}
        facts["batches"] = list(since.batches) if since else None
        cur.execute(Q["segments_of_shape"], facts)
        segments = one(cur).segments
        held = tuple((name, type_) for name, type_ in shape.columns)
        other = [name for name, type_ in held if name not in types or not digests.hash_alike(type_, types[name])]
        if other:
            others += segments
            if segments:
                left_out.append(f"{segments} segments had another column {other[0]} of {target.table}")
            continue
        compared += segments
        columns = tuple((name, types[name]) for name, _ in held)
        statement = sql.SQL(Q["rows_changed_since" if since else "rows_changed"]).format(
            target=table_name(target.table),
            row=digests.row_digest(columns, shape.place, marks_deletions=isinstance(target, History)),
        )
        cur.execute(statement, facts)
        for row in every(cur):
            wrong.add(_named(row, f"rows in {target.table}"), batch=row.batch_id)
    return wrong.check(
        check_name(pipeline, target, CONTENTS_AS_COMMITTED),
        "contents" if compared else "nothing",
        target.table,
        told=f"{compared} segments by digest",
        left_out="; ".join(left_out),
        share=Share(compared, compared + others, "segments"),
    )


def shapes_of(cur: cursor, table: str) -> list[Any]:
    """Returns every list of columns that batches were committed with into a table."""
    cur.execute(Q["shapes"], {"target": table})
    return every(cur)


def _of_rejects(cur: cursor, pipeline: Pipeline) -> PromiseCheck:
    cur.execute(sql.SQL(Q["rejects_changed"]).format(reject=digests.kept_reject()), {"pipeline": pipeline.name})
    wrong = Wrong()
    for row in every(cur):
        wrong.add(_named(row, "rejects in the ledger"), batch=row.batch_id)
    return wrong.check(REJECTS, told="by digest")


def _named(row: Any, what: str) -> str:
    return f"{row.topic}-{row.partition}: batch {row.batch_id}: the {row.rows} {what} are not those that it committed"
