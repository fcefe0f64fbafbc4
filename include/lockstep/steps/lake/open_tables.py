"""Opens the lake tables of a pipeline at their pointers, and refuses those that cannot take its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import OWNER, PLANNER, READER, snapshot, transaction
from lockstep.core.errors import Refusal
from lockstep.core.lake.addresses import LAKE, address_of_table
from lockstep.core.lake.iceberg import CATALOG, lake_places
from lockstep.core.pipeline.columns import staged_column
from lockstep.core.staging import STAGING_SCHEMA
from lockstep.ledger.lake import moves
from lockstep.ledger.staging.digests import digest_columns
from lockstep.targets.lake.fit import refuse_stale, require_lake_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import connection

    from lockstep.adapters.iceberg.table import LakeTable
    from lockstep.core.lake.files import LakeFile
    from lockstep.core.lake.iceberg import Iceberg
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.staging import AttemptId


def open_tables(
    conn: connection, pipeline: Pipeline, known_before: Mapping[int, LakeTable] | None = None
) -> dict[int, LakeTable]:
    """Returns the pipeline's lake tables by place, as their pointers show them now. None for a pipeline without one.

    Those of `known_before` whose pointers have not moved are not read again: a metadata file never changes.
    Raises `Refusal` for a table that was made again, or taken back behind the last commit.
    """
    places = lake_places(pipeline.targets)
    if not places:
        return {}
    with snapshot(conn, READER) as cur:  # a commit between both looks would pass for a table that was taken back
        known = {
            place: (table, moves.pointer(cur, pipeline.name, table), moves.last_commit(cur, table))
            for place, table in places.items()
        }
    found = {}
    for place, (table, address, last) in known.items():
        before = (known_before or {}).get(place)
        opened = before if before and before.address == address else load_table(pipeline.name, table, address)
        found[place] = opened
        if why := foreign_state(last, opened):
            with transaction(conn, READER) as cur:  # asked only now: the answer looks at all moves of the table
                who = moves.other_movers(cur, table)
            raise Refusal(f"{pipeline.name}: {table} {why}: moved {who}", next_command=remedy(table, last, opened))
    return found


def foreign_state(last: Any, opened: LakeTable) -> str | None:
    """Says how another writer has put the table into a state that the last commit has not led to. None if nobody has.

    The table of a pipeline that has ended may be made again.
    """
    from lockstep.adapters.iceberg.history import was_taken_back  # noqa: PLC0415 - few pipelines have a lake table

    if last and last.table_uuid != opened.uuid:
        return None if last.is_free else f"is another table than the one of batch {last.batch_id}"
    if last and was_taken_back(opened, last.snapshot_id, last.sequence):
        return f"was taken back behind batch {last.batch_id}"
    return None


def remedy(table: Iceberg, last: Any, opened: LakeTable) -> str:
    """Returns the call that leads readers to the state of the last commit again."""
    name = f"{table.namespace}.{table.name}"
    if last.table_uuid == opened.uuid and opened.keeps(last.snapshot_id):
        return f"in Spark: call {CATALOG}.system.set_current_snapshot('{name}', {last.snapshot_id})"
    return f"in Spark: drop table {table}, then call {CATALOG}.system.register_table('{name}', '{last.after}')"


def require_lake_fit(conn: connection, pipeline: Pipeline, columns: Sequence[Sequence[Column]]) -> dict[int, LakeTable]:
    """Returns the lake tables. Refuses those that are missing, or do not fit the columns that reach them."""
    tables = open_tables(conn, pipeline)
    for place, table in tables.items():
        require_lake_columns(pipeline, table, columns[place])
    return tables


def open_fitting(
    conn: connection, pipeline: Pipeline, attempt: AttemptId, known_before: Mapping[int, LakeTable] | None = None
) -> dict[int, LakeTable]:
    """Returns the lake tables as they are now, as `open_tables` does. Refuses those that no longer fit the staged rows."""
    tables = open_tables(conn, pipeline, known_before)
    with transaction(conn, READER) as cur:
        staged = {at: digest_columns(cur, f"{STAGING_SCHEMA}.{attempt.beside(at)}") for at in tables}
    for place, table in tables.items():
        if staged[place]:  # else the attempt has committed
            require_lake_columns(pipeline, table, [staged_column(*each) for each in staged[place]])
    return tables


def require_own_columns(pipeline: Pipeline, table: LakeTable, files: Sequence[LakeFile]) -> None:
    """Refuses files of an attempt, written alike, if a column of theirs was dropped, renamed or made anew since."""
    from lockstep.adapters.iceberg.schema import store_answers  # noqa: PLC0415 - few pipelines have a lake table
    from lockstep.adapters.iceberg.within import stale_column  # noqa: PLC0415 - as above

    for file in files[:1]:
        with store_answers(file.path):
            name = stale_column(table.opened.io, table.opened.metadata, file.path)
        refuse_stale(pipeline, table, name)


def make_tables(conn: connection, pipeline: Pipeline, warehouse: str, columns: Sequence[Sequence[Column]]) -> list[str]:
    """Makes the lake tables that are not there yet, below the warehouse. Returns their names."""
    from lockstep.adapters.iceberg.schema import make_table  # noqa: PLC0415 - as above
    from lockstep.adapters.iceberg.store import lake_place  # noqa: PLC0415 - few pipelines have a lake table

    made = []
    for place, table in lake_places(pipeline.targets).items():
        with transaction(conn, PLANNER) as cur:
            if moves.has_pointer(cur, table):
                continue
        if not warehouse:
            raise Refusal(
                f"{pipeline.name}: where the lake is, nobody has said: {LAKE} is not set",
                next_command=f"set {LAKE} to file:///PATH or s3://BUCKET/PREFIX, then lockstep migrate {pipeline.name}",
            )
        lake_place(warehouse)
        address = make_table(address_of_table(pipeline.name, warehouse, table), columns[place])
        with transaction(conn, OWNER) as cur:
            moves.make_pointer(cur, table, address)
        made.append(str(table))
    return made


def load_table(pipeline: str, table: Iceberg, address: str) -> LakeTable:
    """Returns the table as its metadata at this address has it. Raises `Refusal` if the extra is not installed."""
    try:
        from lockstep.adapters.iceberg.table import LakeTable  # noqa: PLC0415 - few pipelines have a lake table
    except ModuleNotFoundError as error:
        raise Refusal(
            f"{pipeline}: {table} needs the package {error.name}", next_command="pip install 'lockstep-kafka[lake]'"
        ) from None
    return LakeTable(str(table), address)
