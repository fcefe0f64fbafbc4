"""Makes the view before a table whose rows are written once, and finds the table behind it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from psycopg2 import errors, sql

from lockstep.adapters.postgres import OWNER
from lockstep.adapters.postgres_words import first_line
from lockstep.core.errors import Refusal
from lockstep.core.lake.iceberg import is_lake_table
from lockstep.core.pipeline.stores import rows_table_of
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import maybe, one

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Pipeline

Q = queries("lockstep.ledger.admin", "shown_view")


def rows_behind(cur: cursor, table: str) -> str | None:
    """Returns the table behind the view, or None if the target is no view that leaves hidden batches out."""
    if is_lake_table(table):
        return None
    cur.execute(Q["rows_behind"], {"table": table})
    row = maybe(cur)
    return str(row.rows_table) if row else None


def of_rows(pipeline: Pipeline, rows_table: str) -> Pipeline:
    """Returns the pipeline as if its only target were the table behind the view."""
    return replace(pipeline, target=replace(pipeline.first, table=rows_table))


def behind_view(cur: cursor, pipeline: Pipeline) -> Pipeline:
    """Returns the pipeline with the table behind its view for a target, if that is such a view."""
    rows_table = rows_behind(cur, pipeline.first.table)
    return of_rows(pipeline, rows_table) if rows_table else pipeline


def draw_view(cur: cursor, pipeline: Pipeline) -> None:
    """Makes the view of a target that has only a table of its rows. Brings one that is there up to date.

    Call it as the ledger's owner, who owns the view. Raises `Refusal` if others may read rows that are hidden, or if rows
    may lack `_batch`.
    """
    target = pipeline.first
    rows_table = rows_table_of(pipeline)
    if rows_table is None:
        return
    names = {"table": target.table, "rows_table": rows_table}
    cur.execute(Q["to_draw"], names)
    found = maybe(cur)
    if found is None or "_batch" not in found.columns:
        return
    if found.is_owned:
        raise Refusal(
            f"{pipeline.name}: {rows_table} is another pipeline's table, and would hold the rows of {target.table}",
            next_command="give one of the two another name",
        )
    if found.may_lack_batch:
        raise Refusal(
            f"{pipeline.name}: {rows_table}._batch may be null, and a row without a batch would come and go with hidden ones",
            next_command=f"alter table {rows_table} alter _batch set not null, then lockstep migrate {pipeline.name}",
        )
    parts = {
        "view": table_name(target.table),
        "rows_table": table_name(rows_table),
        "options": sql.SQL(f"with ({found.options})" if found.options else ""),
        "columns": sql.SQL(", ").join(sql.SQL("t.{}").format(sql.Identifier(name)) for name in found.columns),
    }
    try:
        cur.execute(sql.SQL(Q["draw"]).format(**parts))
        cur.execute(sql.SQL(Q["grant_rows"]).format(**parts))
    except (errors.InsufficientPrivilege, errors.InvalidTableDefinition) as error:
        raise Refusal(
            f"{pipeline.name}: the view {target.table} cannot be made: {first_line(error)}",
            next_command=f"let {OWNER} create there, or drop the view, then lockstep migrate {pipeline.name}",
        ) from None
    cur.execute(Q["other_readers"], names)
    if readers := one(cur).readers:
        raise Refusal(
            f"{pipeline.name}: {readers} may read {rows_table}, where rows stand that are not committed",
            next_command=f"take the right away: revoke all on {rows_table} from {readers}",
        )
