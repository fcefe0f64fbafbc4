"""Runs the statements of a move: pointers by compare-and-set, and the rows that say what was written and prepared."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg2.extras import Json, execute_batch

from lockstep.core.errors import LakeMoved, Refusal
from lockstep.core.lake.files import LakeFile, Prepared, Replaced
from lockstep.core.lake.iceberg import CATALOG, Iceberg
from lockstep.faults import reach
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.lake.files import BoundsOfFiles
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.ledger.lake", "moves")


def pointer(cur: cursor, pipeline: str, table: Iceberg) -> str:
    """Returns the address of the table's metadata. Raises `Refusal` if there is no such table."""
    cur.execute(Q["pointer"], _named(table))
    row = maybe(cur)
    if row is None or row.address is None:
        if (last := last_commit(cur, table)) and not last.is_free:
            name = f"{table.namespace}.{table.name}"
            raise Refusal(
                f"{pipeline}: {table} is gone, and batch {last.batch_id} was committed into it: moved "
                f"{other_movers(cur, table)}",
                next_command=f"in Spark: call {CATALOG}.system.register_table('{name}', '{last.after}')",
            )
        raise Refusal(f"{pipeline}: there is no table {table}", next_command=f"lockstep migrate {pipeline}")
    if row.kind != "TABLE":
        raise Refusal(
            f"{pipeline}: {table} is a {row.kind.lower()} of the catalog, and rows go into tables",
            next_command=f"in Spark: drop {row.kind.lower()} {table}, then lockstep migrate {pipeline}",
        )
    return str(row.address)


def make_pointer(cur: cursor, table: Iceberg, address: str) -> bool:
    """Adds a table to the catalog. Returns False if it is there already."""
    cur.execute(Q["make_namespace"], _named(table))
    cur.execute(Q["make_pointer"], _named(table) | {"address": address})
    return bool(cur.rowcount)


def has_pointer(cur: cursor, table: Iceberg) -> bool:
    """Returns True if the catalog has the table."""
    cur.execute(Q["pointer"], _named(table))
    return maybe(cur) is not None


def move_pointers(
    cur: cursor, attempt: AttemptId, moves: Mapping[int, tuple[Iceberg, Prepared, int]]
) -> dict[str, dict[str, int]]:
    """Moves the pointers, in the order of their names, and records what the commit does to each table.

    Each move has the number of rows that it brings. Returns what was done, by table. Raises `LakeMoved` if one is not
    where it was when its move was prepared.
    """
    effects = {}
    for place, (table, made, rows) in sorted(moves.items(), key=lambda each: each[1][0]):
        cur.execute(Q["move_pointer"], _named(table) | {"before": made.before, "after": made.after})
        if cur.rowcount != 1:
            raise LakeMoved(f"{table} has moved since its snapshot was prepared: {last_mover(cur, table)}")
        cur.execute(Q["insert_commit"], asdict(attempt) | _named(table) | {"place": place} | asdict(made))
        reach("lake.one_pointer_moved")
        gone = {"withdrawn": made.withdrawn} if made.withdrawn else {}
        effects[str(table)] = {"inserted": rows, **gone}
    return effects


def last_mover(cur: cursor, table: Iceberg) -> str:
    """Says who moved a pointer last, and when."""
    cur.execute(Q["last_move"], _named(table))
    row = maybe(cur)
    return _by(row) if row else "by nobody known"


def other_movers(cur: cursor, table: Iceberg) -> str:
    """Says who has moved a pointer beside commits and upkeep, and when, the newest first. At most three moves."""
    cur.execute(Q["moves_of_others"], _named(table))
    return ", ".join(_by(row) for row in every(cur)) or "by no other writer"


def _by(row: Any) -> str:
    dropped = ", who dropped it" if row.after is None else ""
    return f"by {row.login} ({row.application or 'no name'}) at {row.at:%Y-%m-%d %H:%M:%S %Z}{dropped}"


def shown_by(cur: cursor, table: Iceberg) -> str | None:
    """Returns the address that the last told move of a table led to, or None if no move was told."""
    cur.execute(Q["last_move"], _named(table))
    row = maybe(cur)
    return row.after if row else None


def last_commit(cur: cursor, table: Iceberg) -> Any:
    """Returns (batch_id, table_uuid, snapshot_id, sequence, after) of the last commit into the table, or None."""
    cur.execute(Q["last_commit"], _named(table))
    return maybe(cur)


def insert_prefix(cur: cursor, attempt: AttemptId, place: int, location: str) -> None:
    """Records where the attempt writes for a target, before it does."""
    cur.execute(Q["insert_prefix"], asdict(attempt) | {"place": place, "location": location})


def insert_files(cur: cursor, attempt: AttemptId, files: Mapping[int, Sequence[LakeFile]]) -> None:
    """Records the files that count, by place."""
    rows = []
    for place, its in files.items():
        for file in its:
            digests = Json({"columns": file.columns, "streams": file.digests}) if file.of_task else None
            facts = {"place": place, "streams": Json(file.streams), "digests": digests}
            rows.append(asdict(file) | asdict(attempt) | facts)
    execute_batch(cur, Q["insert_file"], rows)


def files_of_attempt(cur: cursor, attempt: AttemptId) -> dict[int, list[LakeFile]]:
    """Returns the attempt's recorded files, by place."""
    cur.execute(Q["files_of_attempt"], asdict(attempt))
    found: dict[int, list[LakeFile]] = {}
    for row in every(cur):
        streams = {stream: (s[0], s[1], s[2], s[3], s[4]) for stream, s in row.streams.items()}
        told = row.digests or {"streams": {}, "columns": ()}
        file = LakeFile(row.path, row.rows, row.bytes, streams, told["streams"], tuple(told["columns"]))
        found.setdefault(row.place, []).append(file)
    return found


def insert_prepared(cur: cursor, attempt: AttemptId, place: int, commit_uuid: str, before: str) -> None:
    """Records a preparation before its first file is written."""
    cur.execute(Q["insert_prepared"], asdict(attempt) | {"place": place, "commit_uuid": commit_uuid, "before": before})


def swept_prepared(cur: cursor, commit_uuid: str) -> None:
    """Records that nothing of a refused preparation is left."""
    cur.execute(Q["swept_prepared"], {"commit_uuid": commit_uuid})


def swept_prefix(cur: cursor, row: Any) -> None:
    """Records that nothing of a dead attempt is left."""
    cur.execute(Q["swept_prefix"], {"batch_id": row.batch_id, "token": row.token, "place": row.place})


def dead_preparations(cur: cursor) -> list[Any]:
    """Returns preparations of ended attempts that no pointer has shown, with their attempt's prefix."""
    cur.execute(Q["dead_preparations"])
    return every(cur)


def dead_prefixes(cur: cursor) -> list[Any]:
    """Returns the prefixes of attempts that have ended without a commit."""
    cur.execute(Q["dead_prefixes"])
    return every(cur)


def kept_prefixes(cur: cursor) -> list[Any]:
    """Returns the prefixes of committed attempts that nobody has looked at, each with the files that count there."""
    cur.execute(Q["kept_prefixes"])
    return every(cur)


def replaced(cur: cursor, batch_id: int) -> tuple[tuple[Replaced, ...], tuple[int, ...]]:
    """Returns the offsets whose rows a replay takes out, and the batches that own them. None for another batch."""
    cur.execute(Q["replaced"], {"batch_id": batch_id})
    rows = every(cur)
    ranges = tuple(Replaced(row.stream_id, row.from_offset, row.until_offset) for row in rows)
    return ranges, tuple(sorted({row.expects_batch for row in rows}))


def offsets_to_compare(cur: cursor, batch_id: int) -> tuple[Replaced, ...]:
    """Returns the offsets that a batch reads, whatever is there."""
    cur.execute(Q["offsets_to_compare"], {"batch_id": batch_id})
    return tuple(Replaced(row.stream_id, row.from_offset, row.until_offset) for row in every(cur))


def lane_and_ranges(cur: cursor, batch_id: int) -> tuple[str, dict[str, list[int]]]:
    """Returns the batch's lane, and its offsets by topic and partition."""
    cur.execute(Q["ranges"], {"batch_id": batch_id})
    rows = every(cur)
    lane = rows[0].lane if rows else ""
    return lane, {f"{row.topic}-{row.partition}": [row.from_offset, row.until_offset] for row in rows}


def files_of_pipeline(cur: cursor, pipeline: str, batch_id: int | None = None) -> list[Any]:
    """Returns the files that commits of the pipeline have brought, or one batch. A commit without a file has one row."""
    cur.execute(Q["files_of_pipeline"], {"pipeline": pipeline, "batch_id": batch_id})
    return every(cur)


def expected(cur: cursor, pipeline: str, table: Iceberg, uuid: str) -> list[Any]:
    """Returns each committed segment with the sums of each of its files, one row per file.

    Segments of other pipelines count if they are in the very table with this `uuid`.
    """
    cur.execute(Q["expected"], _named(table) | {"pipeline": pipeline, "uuid": uuid})
    return every(cur)


def known_bounds(cur: cursor, paths: Collection[str]) -> BoundsOfFiles:
    """Returns the first and last offset of each stream in these files. Files of upkeep and of other writers are left out."""
    cur.execute(Q["known_bounds"], {"paths": list(paths)})
    return {row.path: {int(stream): (its[3], its[4]) for stream, its in row.streams.items()} for row in every(cur)}


def batches_of_files(cur: cursor, paths: Collection[str]) -> dict[str, int]:
    """Returns the batches that have brought these files. Files of upkeep and of other writers have none."""
    cur.execute(Q["batches_of_files"], {"paths": list(paths)})
    return {row.path: row.batch_id for row in every(cur)}


def _named(table: Iceberg) -> dict[str, str]:
    return {"catalog": CATALOG, "namespace": table.namespace, "name": table.name}
