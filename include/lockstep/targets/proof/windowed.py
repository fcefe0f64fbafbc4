"""Checks a target with windows against its contributions, its late records, and the judgements behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.windows.windows_of import windows_a_record
from lockstep.ledger.proof.verify import first_wrong
from lockstep.ledger.queries import queries
from lockstep.targets.proof import accumulated
from lockstep.targets.totals import written_pieces

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.targets import Windows
    from lockstep.core.proof.verification import PromiseCheck, Proves

Q = queries("lockstep.targets.proof", "windowed")
OF_TOTALS: dict[str, tuple[str, Proves]] = {
    "every contribution is of a segment its batch owns": ("contributions_of_strangers", "coordinates"),
    "each window has one row": ("keys_doubled", "coordinates"),
}
OF_WINDOWS_ALONE: dict[str, tuple[str, Proves]] = {
    "every row counts in each of its windows, or is late": ("rows_not_counted", "coordinates"),
    "late is what its judgement calls late": ("late_not_by_judgement", "coordinates"),
    "every contribution is to a known window": ("windows_not_known", "coordinates"),
    "shown windows are what the contributions add up to": ("windows_not_added_up", "contents"),
    "no window is shown before the watermark has passed it": ("shown_too_early", "nothing"),
    "every covered offset was judged once": ("not_judged", "nothing"),
    "the watermark is what its streams allow": ("watermark_too_high", "nothing"),
}


def windowed_checks(cur: cursor, pipeline: str, target: Windows) -> list[PromiseCheck]:
    """Checks windows, late rows and event time against the ledger. Each check names its first errors."""
    parts = written_pieces(cur, target)
    values = {"pipeline": pipeline, "target": target.table, "windows": windows_a_record(target.window)}
    found = []
    for checks, texts in ((OF_TOTALS, accumulated.Q), (OF_WINDOWS_ALONE, Q)):
        for name, (query, proves) in checks.items():
            wrong = first_wrong(cur, sql.SQL(texts[query]).format(**parts), values)
            found.append(wrong.check(name, proves, target.table))
    return found
