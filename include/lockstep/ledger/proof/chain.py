"""Links commits, decisions and requests of a pipeline into its chain. Runs seal it, verify checks it, certificates show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.proof.certificate import Link
from lockstep.ledger.proof.verify import first_wrong
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg2.extensions import cursor

    from lockstep.core.proof.verification import PromiseCheck, Wrong

Q = queries("lockstep.ledger.proof", "chain")
LINKS_PER_TRANSACTION = 1_000  # records that one transaction links
BATCHES_WITHOUT_LINK = 10  # a seal that fails now and then is made up for by the next one
CHECK = "the chain of commits, decisions and requests holds"


def seal_oldest(cur: cursor, pipeline: str) -> bool:
    """Links the oldest records that wait. Returns True if more of them may wait."""
    cur.execute(Q["seal"], {"pipeline": pipeline, "most": LINKS_PER_TRANSACTION})
    return int(one(cur).links) == LINKS_PER_TRANSACTION


def head(cur: cursor, pipeline: str) -> Any:
    """Returns number and digest of the newest link, None before the first, and the number of records that wait."""
    cur.execute(Q["head"], {"pipeline": pipeline})
    return one(cur)


def chain_check(cur: cursor, pipeline: str) -> PromiseCheck:
    """Checks each link against its record and its predecessor. Each record must be linked or waiting."""
    wrong = first_wrong(cur, sql.SQL(Q["links_broken"]), {"pipeline": pipeline})
    wrong.join(stuck(cur, pipeline))
    found = head(cur, pipeline)
    detail = f"{found.number or 0} links, {found.waiting} records wait for the next run"
    return wrong.check(CHECK, told=detail)


def stuck(cur: cursor, pipeline: str) -> Wrong:
    """Names what no seal can link, and records that wait though many batches were committed since the last link."""
    return first_wrong(cur, sql.SQL(Q["stuck"]), {"pipeline": pipeline, "most": BATCHES_WITHOUT_LINK})


def links_of(cur: cursor, pipeline: str, batches: Iterable[int]) -> list[Link]:
    """Returns the links of the commits of these batches, in the order of the chain."""
    cur.execute(Q["links_of_batches"], {"pipeline": pipeline, "batches": list(batches)})
    return [Link(row.number, row.previous, row.record, row.digest) for row in every(cur)]


def ledger_link(cur: cursor, pipeline: str) -> tuple[str, Link]:
    """Returns the id of the ledger, and the link of the pipeline's chain that names it."""
    cur.execute(Q["ledger_link"], {"pipeline": pipeline})
    row = one(cur)
    return row.ledger_id, Link(row.number, row.previous, row.record, row.digest)


def ledger_id(cur: cursor) -> str:
    """Returns the id that this ledger drew when it was migrated. A copy of its database has the same."""
    cur.execute(Q["ledger_id"])
    return str(one(cur).ledger_id)


def ranges_of_batch(cur: cursor, batch_id: int) -> int:
    """Returns the number of a batch's ranges. A commit of the whole batch has a link for each."""
    cur.execute(Q["ranges_of_batch"], {"batch_id": batch_id})
    return int(one(cur).ranges)


def digests(cur: cursor, pipeline: str, numbers: Iterable[int]) -> dict[int, str]:
    """Returns the digest of each of these links by its number. Omits links that do not exist."""
    cur.execute(Q["digests"], {"pipeline": pipeline, "numbers": list(numbers)})
    return {row.number: row.digest for row in every(cur)}
