"""Traces an offset to its batch and rows, and a row back to its offset."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from psycopg2 import DataError, errors, sql

from lockstep.core.errors import Refusal
from lockstep.core.pipeline.definition import Append, History, Pipeline
from lockstep.core.pipeline.targets import Upsert, WithTotals, asked_key
from lockstep.core.records import SOURCE_ORDER
from lockstep.core.states import CoverageKind
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, maybe
from lockstep.ledger.views.erased import erased_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import TopicPartition
    from lockstep.ledger.views.reading import Document

Q = queries("lockstep.ledger.views", "tracing")
GAP_IN_LOG = "gap in the log"


def outcome_of_record(
    cur: cursor,
    pipeline: Pipeline,
    partition: int,
    offset: int,
    look: Callable[[int, int], list[Document]] | None = None,
    topic: str | None = None,
    of_stream: int | None = None,
) -> Document:
    """Returns the owner of an offset and the outcome of its record. With several targets, each row names its own.

    The offset is one of the partition's newest log, or of the log of a stream. `look` finds its rows if they are in
    another store. `coverage` is batch, loss, skipped, uncovered, or `gap in the log`. In the last case a batch covers the
    offset, and is known to have found no record there. `erased` is the decision that erased the record, or None.
    """
    place = {"topic": pipeline.one_topic(topic), "partition": partition, "offset": offset}
    cur.execute(Q["owner_of_offset"], {"pipeline": pipeline.name, "of_stream": of_stream} | place)
    owner = maybe(cur)
    if owner is None:
        cur.execute(Q["known_partitions"], {"pipeline": pipeline.name, "topic": place["topic"]})
        known = ", ".join(str(row.partition) for row in every(cur)) or "none yet"
        raise Refusal(
            f"{pipeline.name}: partition {partition} has no stream; there are: {known}",
            next_command=f"lockstep status {pipeline.name}",
        )
    coordinates = {"stream_id": owner.stream_id, "offset": offset}
    rows = look(owner.stream_id, offset) if look else _rows(cur, pipeline, coordinates)
    cur.execute(Q["reject_of_offset"], coordinates)
    reject = maybe(cur)
    known_gap = owner.kind == CoverageKind.BATCH and not rows and not reject and _no_record(pipeline, owner, offset)
    return _named(owner) | {
        "coverage": GAP_IN_LOG if known_gap else owner.kind or "uncovered",
        "rows": rows,
        "reject": reject._asdict() if reject else None,
        "erased": erased_by(cur, owner.stream_id, offset),
    }


def stream_of_offset(
    cur: cursor, pipeline: str, where: TopicPartition, offset: int, of_stream: int | None = None
) -> int:
    """Returns the stream that owns an offset, as `outcome_of_record` chooses it. The partition must have one."""
    place = {"topic": where.topic, "partition": where.partition, "offset": offset}
    cur.execute(Q["owner_of_offset"], {"pipeline": pipeline, "of_stream": of_stream} | place)
    (row,) = every(cur)
    return int(row.stream_id)


def log_of_stream(cur: cursor, stream_id: int) -> tuple[str, str, str]:
    """Returns (cluster id, topic, topic id) of a stream."""
    cur.execute(Q["log_of_stream"], {"stream_id": stream_id})
    (row,) = every(cur)
    return row.cluster_id, row.topic, row.topic_id


def _rows(cur: cursor, pipeline: Pipeline, coordinates: Mapping[str, int]) -> list[Document]:
    found: list[Document] = []
    for one in pipeline.each():
        statement = sql.SQL(Q["rows_of_offset"]).format(target=table_name(one.first.table))
        named = {"_target": one.first.table} if len(pipeline.targets) > 1 else {}
        found += [named | row for row in _target_rows(cur, one, statement, coordinates)]
    return found


def keyed(pipeline: Pipeline) -> Pipeline | None:
    """Returns the pipeline with only its first target with a key, or None if no target has one."""
    return next((one for one in pipeline.each() if asked_key(one.first)), None)


def record_of_row(cur: cursor, pipeline: Pipeline, key: Sequence[str], target_cur: cursor | None = None) -> Document:
    """Returns a key's row with its record and attempt, as `stream_and_record` finds them."""
    return stream_and_record(cur, pipeline, key, target_cur)[1]


def stream_and_record(
    cur: cursor, pipeline: Pipeline, key: Sequence[str], target_cur: cursor | None = None
) -> tuple[int, Document]:
    """Returns a key's row with its record, its attempt and its stream. Without a row, returns the tombstone that deleted it.

    The row of a history is the key's last version, or the deletion that ended it. The origin of an accumulated row is the
    newest record that counts. `contributions` are all that add up to it, newest first. `target_cur` queries the store of
    the rows, if it is another.
    """
    target = pipeline.first
    columns = asked_key(target)
    if not columns:
        raise Refusal(
            f"{pipeline.name}: {target.table} is appended to, its rows have no key; each carries _stream and _offset",
            next_command=f"lockstep lineage {pipeline.name} --partition P --offset O",
        )
    if len(key) != len(columns):
        raise Refusal(
            f"{pipeline.name}: the key is ({', '.join(columns)}), {len(key)} of {len(columns)} values are given",
            next_command=f"lockstep blame {pipeline.name} {' '.join(f'--key {c.upper()}' for c in columns)}",
        )
    statement = sql.SQL(Q["versions_of_key" if isinstance(target, History) else "rows_of_key"]).format(
        target=table_name(pipeline.first.table),
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        values=sql.SQL(", ").join(map(sql.Placeholder, columns)),
    )
    rows = _target_rows(target_cur or cur, pipeline, statement, dict(zip(columns, key, strict=True)))
    contributions = _contributions(cur, pipeline, dict(zip(columns, key, strict=True)))
    if rows:
        row: Document | None = rows[0]
        batch_id = contributions[0].batch_id if contributions else rows[0]["_batch"]
        cur.execute(
            Q["origin_of_row"],
            {"stream_id": rows[0]["_stream"], "offset": rows[0]["_offset"], "batch_id": batch_id},
        )
    else:
        row = None
        _find_tombstone(cur, target.table, key, target_cur)
    origin = maybe(cur)
    if origin is None:
        shown = ", ".join(f"{c} = {k!r}" for c, k in zip(columns, key, strict=True))
        what = "came from no stream of this ledger" if row else _why_gone(cur, pipeline)
        raise Refusal(f"{target.table}: the row with {shown} {what}", next_command=f"lockstep status {pipeline.name}")
    is_deleted = row is None or bool(row.get("_deleted"))
    known = {"row": row, "deleted": is_deleted, "contributions": [_told(c) for c in contributions]}
    return origin.stream_id, known | _named(origin)


def _why_gone(cur: cursor, pipeline: Pipeline) -> str:
    """Says why a row without a tombstone is not there. A truncation of the source leaves none behind."""
    target = pipeline.first
    if isinstance(target, Upsert) and target.order_by == SOURCE_ORDER:
        cur.execute(Q["last_truncation"], {"target": target.table, "pipeline": pipeline.name})
        if found := maybe(cur):
            return f"is not there; its source's table was truncated at {found.place} offset {found.offset}"
    return "is not there, and no tombstone says that it was"


def _contributions(cur: cursor, pipeline: Pipeline, key: Mapping[str, str]) -> list[Any]:
    """Returns the contributions of segments to an accumulated key, or nothing for other targets."""
    target = pipeline.first
    if not isinstance(target, WithTotals):
        return []
    statement = sql.SQL(Q["contributions_of_key"]).format(
        target=table_name(pipeline.first.table),
        table=sql.Literal(target.table),
        columns=sql.SQL(", ").join(map(sql.Identifier, key)),
        values=sql.SQL(", ").join(map(sql.Placeholder, key)),
    )
    cur.execute(statement, key)
    return every(cur)


def _told(contribution: Any) -> Document:
    return {
        "topic": contribution.topic,
        "partition": contribution.partition,
        "from_offset": contribution.from_offset,
        "until_offset": contribution.until_offset,
        "batch": contribution.batch_id,
        "attempt": contribution.token,
        "records": contribution.records,
        "folded": contribution.folded,
        "totals": json.loads(contribution.totals, parse_float=Decimal),
    }


def _find_tombstone(cur: cursor, table: str, key: Sequence[str], target_cur: cursor | None) -> None:
    """Finds a key's tombstone in the store of the rows, then its record in the ledger."""
    where = target_cur or cur
    where.execute(Q["tombstone_of_key"], {"target": table, "key": list(key)})
    found = maybe(where)
    place = {"stream_id": found and found.stream_id, "offset": found and found.offset}
    cur.execute(Q["record_of_tombstone"], place)


def _named(origin: Any) -> Document:
    return {
        "topic": origin.topic,
        "partition": origin.partition,
        "offset": origin.offset,
        "batch": origin.batch_id,
        "attempt": origin.token,
        "dag_id": origin.dag_id,
        "dag_run_id": origin.dag_run_id,
    }


def _no_record(pipeline: Pipeline, owner: Any, offset: int) -> bool:
    """Returns True if the counts alone prove that no record is at this offset.

    Otherwise a transform, a tombstone or a newer record may have removed its row.
    """
    if owner.delivered == owner.span:
        return False
    outside = owner.first_offset is None or not owner.first_offset <= offset <= owner.last_offset
    return outside or (all(isinstance(target, Append) for target in pipeline.targets) and owner.filtered == 0)


def _target_rows(
    cur: cursor, pipeline: Pipeline, statement: sql.Composable, values: Mapping[str, Any]
) -> list[Document]:
    try:
        cur.execute(statement, values)
    except (
        errors.UndefinedTable,
        errors.UndefinedColumn,
        errors.InvalidSchemaName,
        errors.InsufficientPrivilege,
    ) as error:
        raise Refusal(
            f"{pipeline.name}: the target {pipeline.first.table} is not migrated: {str(error).splitlines()[0]}",
            next_command=f"lockstep migrate {pipeline.name}",
        ) from None
    except DataError as error:
        raise Refusal(
            f"{pipeline.name}: {str(error).splitlines()[0]}", next_command=f"lockstep blame {pipeline.name} --help"
        ) from None
    names = [column.name for column in cur.description or ()]
    return [dict(zip(names, row, strict=True)) for row in every(cur)]
