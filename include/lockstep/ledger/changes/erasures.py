"""Computes and records erasures in the database: the rows that one decision removes from targets and ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg2 import DataError, sql

from lockstep.core.changes.erasure import UUID, key_kind, needles_of, pattern_of
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.definition import Append, History, Windows
from lockstep.core.pipeline.targets import row_key
from lockstep.ledger.proof.verify_contents import shapes_of
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, maybe, one
from lockstep.ledger.staging import digests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Pipeline, Target

Q = queries("lockstep.ledger.changes", "erasures")


@dataclass(frozen=True, slots=True)
class Subject:
    """The key to erase, as its column writes it. `given` is the user's text, which may be written in another way."""

    pipeline: str
    column: str
    key: str
    given: str
    as_uuid: bool

    def facts(self) -> dict[str, Any]:
        """Returns the values that statements name."""
        return {"pipeline": self.pipeline, "column": self.column, "key": self.key, "as_uuid": self.as_uuid}

    @property
    def pattern(self) -> str:
        """Returns a regular expression that finds the key as a word, in each way that it may be written."""
        return pattern_of(*self.spellings)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Lists the ways in which the key may stand in bytes and texts."""
        return tuple(dict.fromkeys((self.given, self.key, *([_hyphens(self.key)] if self.as_uuid else []))))


def subject_of(cur: cursor, pipeline: Pipeline, column: str, given: str) -> Subject:
    """Returns the key as the targets' column writes it. Refuses a column that is missing or of an odd type."""
    kinds: dict[str, str] = {}
    for target in pipeline.targets:
        types = dict(digests.digest_columns(cur, target.table))
        if not types:
            raise Refusal(
                f"{pipeline.name}: target {target.table} is not there", next_command=f"lockstep migrate {pipeline.name}"
            )
        if column not in types:
            raise Refusal(
                f"{pipeline.name}: {target.table} has no column {column}, so its rows cannot be found by it; "
                "nothing was erased",
                next_command=f"lockstep erase {pipeline.name} --key KEY --column COLUMN --reason ..., one of every target",
            )
        kind = key_kind(types[column])
        if kind is None or (kinds and kind not in kinds):
            raise Refusal(
                f"{pipeline.name}: {target.table}.{column} is {types[column]}; erase finds keys in columns that are "
                "text, uuid or a whole number, of one kind in every target",
                next_command=f"lockstep erase {pipeline.name} --key KEY --column COLUMN --reason ..., of another type",
            )
        kinds[kind] = types[column]
    ((kind, type_),) = kinds.items()
    statement = sql.SQL(Q["as_written"]).format(type=sql.SQL("text" if kind == "text" else type_))
    try:
        cur.execute(statement, {"key": given, "is_uuid": kind == UUID})
    except DataError:
        raise Refusal(f"{pipeline.name}: the key is no {type_}, which {column} is") from None
    return Subject(pipeline.name, column, str(one(cur).key), given, kind == UUID)


def batches_under_way(cur: cursor, pipeline: str) -> list[int]:
    """Returns the batches that are under way. The caller holds the pipeline's lock."""
    cur.execute(Q["unfinished"], {"pipeline": pipeline})
    return [row.batch_id for row in every(cur)]


def earlier(cur: cursor, subject: Subject) -> int | None:
    """Returns the newest erasure of the same key, if there is one."""
    cur.execute(Q["earlier"], subject.facts())
    row = maybe(cur)
    return row.erasure_id if row else None


def open_erasure(cur: cursor, subject: Subject, ends: Sequence[tuple[str, int, int]]) -> tuple[int, str]:
    """Records the key's digest, and the offsets up to which its records stay out, as (topic id, partition, end).

    Returns the erasure and the digest.
    """
    facts = subject.facts()
    cur.execute(Q["make_salt"], facts)
    cur.execute(Q["insert_erasure"], facts)
    row = one(cur)
    topics, partitions, offsets = ([end[place] for end in ends] for place in range(3))
    bounds = {"topic_ids": topics, "partitions": partitions, "ends": offsets}
    cur.execute(Q["insert_bounds"], facts | bounds | {"erasure_id": row.erasure_id})
    return row.erasure_id, row.digest


def erase_target(cur: cursor, subject: Subject, erasure_id: int, target: Target) -> int:
    """Deletes the target's rows that hold the key, and their shares of totals.

    Returns the number of forgotten deletions.
    """
    types = dict(digests.digest_columns(cur, target.table))
    facts = subject.facts() | {"erasure_id": erasure_id, "target": target.table}
    type_ = types[subject.column] if key_kind(types[subject.column]) != "text" else "text"
    holds = sql.SQL("t.{} = {}::{}").format(sql.Identifier(subject.column), sql.Literal(subject.key), sql.SQL(type_))
    parts = {"target": table_name(target.table), "holds": holds}
    if isinstance(target, Append):
        for shape in shapes_of(cur, target.table):
            if digests.are_alike(shape.columns, tuple(types.items())):
                columns = tuple((name, types[name]) for name, _ in shape.columns)
                batches = sql.SQL(Q["of_shape"]).format(
                    shape=sql.Literal(shape.shape_id), place=sql.Literal(shape.place)
                )
                row = digests.row_digest(columns, shape.place, marks_deletions=isinstance(target, History))
                cur.execute(sql.SQL(Q["erase_rows"]).format(**parts, batches=batches, row=row), facts)
    rest = {"batches": sql.SQL("true"), "row": sql.SQL("null::numeric")}
    cur.execute(sql.SQL(Q["erase_rows"]).format(**parts, **rest), facts)
    if isinstance(target, Append) or subject.column not in target.key:
        return 0
    facts |= {"place": row_key(target).index(subject.column)}
    if isinstance(target, Windows):
        cur.execute(Q["erase_windows"], facts)
        cur.execute(Q["erase_late"], facts)
    cur.execute(Q["erase_contributions"], facts)
    cur.execute(Q["erase_tombstones"], facts)
    return int(cur.rowcount)


def erase_rejects(cur: cursor, subject: Subject, erasure_id: int) -> int:
    """Empties the rejects whose bytes or reason hold the key. Returns their number."""
    cur.execute(Q["erase_rejects"], {"erasure_id": erasure_id, "needles": list(needles_of(*subject.spellings))})
    return int(one(cur).emptied)


def erase_said(cur: cursor, subject: Subject, erasure_id: int) -> int:
    """Empties errors, verdicts and previews that quote the key. Returns their number."""
    cur.execute(Q["erase_said"], {"erasure_id": erasure_id, "pattern": subject.pattern})
    return int(one(cur).replaced)


def erased_counts(cur: cursor, erasure_id: int) -> dict[str, int]:
    """Returns, by table, how many rows, contributions, rejects and changes of feeds were removed."""
    cur.execute(Q["counts"], {"erasure_id": erasure_id})
    return {row.relation: row.rows for row in every(cur)}


def erasure_digest(cur: cursor, erasure_id: int) -> str:
    """Returns the digest of everything that was removed. The decision holds it, and the chain keeps the decision."""
    cur.execute(Q["erased_digest"], {"erasure_id": erasure_id})
    return str(one(cur).digest)


def waiting_erasure(cur: cursor, pipeline: str) -> Any | None:
    """Returns the first stream (topic, partition, position, until_offset) that has not passed an erasure's bound, or None."""
    cur.execute(Q["waiting"], {"pipeline": pipeline})
    return maybe(cur)


def erased_of_batch(cur: cursor, batch_id: int) -> list[Any]:
    """Returns how many rows and rejects of a batch were erased, by decision."""
    cur.execute(Q["erased_of_batch"], {"batch_id": batch_id})
    return every(cur)


def key_expression(column: str, *, as_uuid: bool) -> sql.Composable:
    """Returns the SQL by which a row `t` writes the key of a column."""
    text = sql.SQL("t.{}::text").format(sql.Identifier(column))
    return sql.SQL("lower(translate({}, '{{}}-', ''))").format(text) if as_uuid else text


def _hyphens(key: str) -> str:
    return "-".join((key[:8], key[8:12], key[12:16], key[16:20], key[20:]))
