"""Writes rows of archived files by hand, for tests of what upkeep must keep."""

from __future__ import annotations

from typing import Any

from lockstep.adapters.postgres import OWNER, transaction

PUT = """insert into lockstep.archived (stream_id, offsets, path, records, bytes, digest_sum, digest_squares, sha256, log_start)
    select min(s.stream_id), int8range(%(low)s, %(high)s), %(path)s, 0, 1, 0, 0, repeat('0', 64), %(low)s
    from lockstep.stream s where s.partition = %(partition)s"""
DECIDE = """insert into lockstep.decision (pipeline, kind, who, why, detail)
    select distinct pipeline, 'drop-archived', 'me', 'old', '{}'::jsonb from lockstep.stream"""
DROP = """insert into lockstep.archive_drop (archived_id, decision_id)
    select a.archived_id, max(d.decision_id) from lockstep.archived a, lockstep.decision d group by 1"""


def put_archived(conn: Any, partition: int, low: int, high: int) -> None:
    """Records that a file holds these offsets of a partition. There is no file."""
    with transaction(conn, OWNER) as cur:
        cur.execute(PUT, {"partition": partition, "low": low, "high": high, "path": f"{partition}/{low}-{high}"})


def drop_archived(conn: Any) -> None:
    """Records that a decision dropped every file."""
    with transaction(conn, OWNER) as cur:
        cur.execute(DECIDE)
        cur.execute(DROP)
