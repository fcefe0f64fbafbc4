"""Erases a key from targets and ledger, by one decision in one transaction.

From then on, its records stay out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lockstep.adapters.connection.roles import become
from lockstep.adapters.kafka.topics import ends_of, read_topics
from lockstep.adapters.postgres import COMMITTER, READER
from lockstep.core.changes.erasure import erasable_column, refuse_told
from lockstep.core.pipeline.targets import shares
from lockstep.faults import reach
from lockstep.ledger.batch.archived import archive_facts
from lockstep.ledger.changes import decisions, erasures
from lockstep.ledger.changes.search import left_over
from lockstep.ledger.feed.blank import blank_images, left_in_feeds
from lockstep.ledger.feed.changes import number_erasure_sets, open_erasure_set
from lockstep.steps.changes.decisions import deciding, lock_and_abandon
from lockstep.steps.upkeep.reap import reap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.pipeline.definition import Pipeline


@dataclass(frozen=True, slots=True)
class Erased:
    """The result of an erasure: removed rows by table, deletions, and errors, verdicts and previews that quoted it.

    `left` names what still holds the key. `held` are staging tables of dead attempts that a connection holds. `changed`
    is False if nothing held the key and it had been erased before.
    """

    column: str
    rows: dict[str, int]
    deletions: int
    said: int
    abandoned: tuple[int, ...]
    left: tuple[str, ...]
    shared_with: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    changed: bool = True


class _NotKept(Exception):  # noqa: N818 - an answer, and nobody's fault
    """The rollback of a preview, with the changes that it would have made."""

    def __init__(self, erased: Erased) -> None:
        super().__init__()
        self.erased = erased


def erase(
    conn: connection, broker: Broker, pipeline: Pipeline, key: str, column: str | None, person: Person, *, preview: bool
) -> Erased:
    """Removes every row, contribution, deletion and reject of the key, and records the decision without the key.

    Abandons batches under way, because they may have staged the key. `preview` rolls all of it back.
    """
    name = erasable_column(pipeline, column)
    refuse_told(person, key)
    view = read_topics(broker, pipeline)  # before the transaction, never inside (T6)
    # Records from now on are accepted. An open transaction began before.
    logs = {each.topic: each.topic_id for each in view.topics}
    ends = [(logs[at.topic], at.partition, end) for at, end in ends_of(broker, view).items()]
    try:
        with deciding(conn, pipeline.name) as cur:
            erased = _erase(cur, pipeline, ends, (name, key), person, preview=preview)
    except _NotKept as answer:
        erased = answer.erased
    if preview:
        return erased
    reach("erase.committed")
    return replace(erased, held=reap(conn).held)  # the staging of what was abandoned held it, too


def _erase(
    cur: cursor,
    pipeline: Pipeline,
    ends: Sequence[tuple[str, int, int]],
    what: tuple[str, str],
    person: Person,
    *,
    preview: bool,
) -> Erased:
    abandoned = lock_and_abandon(cur, erasures.batches_under_way(cur, pipeline.name), person)
    decisions.release_claims(cur, abandoned)
    for table in sorted(target.table for target in pipeline.targets if target.feed is not None):
        open_erasure_set(cur, pipeline.name, table)  # a table with a feed changes in no other way
    become(cur, COMMITTER)
    subject = erasures.subject_of(cur, pipeline, *what)
    known = erasures.earlier(cur, subject) is not None
    erasure_id, digest = erasures.open_erasure(cur, subject, ends)
    deletions = sum(erasures.erase_target(cur, subject, erasure_id, target) for target in pipeline.targets)
    reach("erase.rows_gone")
    erasures.erase_rejects(cur, subject, erasure_id)
    said = erasures.erase_said(cur, subject, erasure_id)
    number_erasure_sets(cur)  # late, because the feeds are locked from here on
    waiting = blank_images(cur, erasure_id, pipeline.targets, subject.key)
    reach("erase.images_blank")
    rows = erasures.erased_counts(cur, erasure_id)
    shared = tuple(dict.fromkeys(other for target in pipeline.targets for other in shares(target)))
    become(cur, READER)  # nobody else may read every table, or the images of a feed
    left = left_over(cur, subject, pipeline.targets)
    left += left_in_feeds(cur, pipeline, subject.pattern, waiting)
    left += _in_archive(cur, pipeline.name)
    become(cur, COMMITTER)
    changed = bool(rows or deletions or said or abandoned or not known)
    erased = Erased(subject.column, rows, deletions, said, tuple(abandoned), tuple(left), shared, changed=changed)
    if preview or not changed:
        raise _NotKept(erased)
    detail = {
        "erasure": erasure_id,
        "column": subject.column,
        "key": digest,
        "erased": erasures.erasure_digest(cur, erasure_id),
        "rows": rows,
        "deletions": deletions,
        "said": said,
        "abandoned": abandoned,
    }
    decisions.record(cur, pipeline.name, "erase", person, detail)
    reach("erase.decided")
    return erased


def _in_archive(cur: cursor, pipeline: str) -> list[str]:
    """Names the archived files, which keep records as Kafka gave them. Nobody looks into them for the key."""
    files = sum(row.files for row in archive_facts(cur, pipeline))
    drop = f"lockstep archive {pipeline} --drop-before TIME --reason ..."
    return [f"{files} archived files, if records of the key are in them: {drop}"] if files else []
