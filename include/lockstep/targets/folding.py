"""Folds contributions to closed windows: those that no replay can take out any more become one for each window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.windows.event_time import parse_duration
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every
from lockstep.targets.totals import written_pieces

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.targets import Windows

Q = queries("lockstep.targets", "folding")
BEFORE_ALL_KEYS = "null"  # Postgres orders it before any array


@dataclass(frozen=True, slots=True)
class FoldedPortion:
    """The number of contributions that a portion has folded into others, and its last key. None: nothing was left."""

    contributions: int
    last_key: str | None


def pipelines_with_windows(cur: cursor) -> list[str]:
    """Returns the pipelines with event time."""
    cur.execute(Q["windowed"])
    return [row.pipeline for row in every(cur)]


def fold_portion(cur: cursor, pipeline: str, target: Windows, behind: str, most: int) -> FoldedPortion:
    """Folds at most so many windows behind a key. The caller holds the pipeline's lock: claims are written under it.

    Each window adds up to the same as before, because the order of its records does not matter.
    """
    cur.execute(Q["log_starts"], {"pipeline": pipeline})
    starts = every(cur)
    values = {
        "pipeline": pipeline,
        "target": target.table,
        "lateness": parse_duration(target.lateness, "target.lateness"),
        "streams": [row.stream_id for row in starts],
        "log_starts": [row.log_start for row in starts],
        "behind": behind,
        "most": most,
    }
    parts = written_pieces(cur, target) | {"gone_for_good": sql.SQL(Q["gone_for_good"])}
    cur.execute(sql.SQL(Q["next_keys"]).format(**parts), values)
    keys = [row.key for row in every(cur)]
    if not keys:
        return FoldedPortion(0, None)
    cur.execute(Q["note_folded"], values)
    values["keys"] = keys
    cur.execute(sql.SQL(Q["fold"]).format(**parts), values)
    cur.execute(Q["drop_emptied"], values)
    return FoldedPortion(cur.rowcount, keys[-1])
