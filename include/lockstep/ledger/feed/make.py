"""Makes a target's feed: its row in the ledger, the table of its images, the triggers, and the reader's function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import errors, sql

from lockstep.adapters.connection.roles import become
from lockstep.adapters.postgres import OWNER, PLANNER
from lockstep.adapters.postgres_words import first_line
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.feed.feeds import READER_COLUMNS, SCHEMA, TIMELINE_COLUMNS, feed_clash, feed_name, reader_name
from lockstep.core.pipeline.targets import Send, row_key
from lockstep.ledger.feed.changes import hold_trimming
from lockstep.ledger.feed.filled import refuse_filled_columns
from lockstep.ledger.feed.relays import keep_relay
from lockstep.ledger.feed.verify import other_rows
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

    from lockstep.core.feed.feeds import Feed
    from lockstep.core.pipeline.definition import Pipeline, Target

Q = queries("lockstep.ledger.feed", "make")


def make_feeds(cur: cursor, pipeline: Pipeline) -> list[str]:
    """Makes or mends the feed of each target that has one, as the ledger's owner.

    Returns the tables that have rows which their new feed never announces.

    Raises `BadDefinition` for a table that no feed can follow. Raises it, too, if the definition lacks its table's feed.
    """
    begun = []
    for target in pipeline.targets:
        if target.feed is not None and target.feed.to is not None:
            hold_trimming(cur, target.table)  # before any lock on images; the relay begins at what is kept
        cur.execute(Q["feed"], {"target": target.table})
        there = maybe(cur)
        if target.feed is not None:
            _make(cur, pipeline.name, target, target.feed, is_there=there is not None)
            keep_relay(cur, pipeline.name, target.table, target.feed)
            cur.execute(Q["feed"], {"target": target.table})
            if there is None and not one(cur).began_empty:
                begun.append(target.table)
        elif there is not None:
            raise BadDefinition(
                f"{pipeline.name}: target {target.table} has a feed and the definition has none, so its commits would go "
                "unannounced",
                next_command=f"give the target a feed=Feed(...), then lockstep migrate {pipeline.name}",
            )
    return begun


def misses(cur: cursor, pipeline: Pipeline) -> dict[str, str | None]:
    """Returns, per target with a feed, in words what keeps its changes from being caught, or None."""
    return {target.table: _misses(cur, target.table) for target in pipeline.targets if target.feed is not None}


def follow_altered(cur: cursor, pipeline: Pipeline) -> None:
    """Lets the feeds of altered tables follow their columns, and returns to the planner's role.

    Raises `BadDefinition` for a column that a feed cannot tell apart from others.
    """
    for target in pipeline.targets:
        if target.feed is not None:
            become(cur, OWNER)
            _refuse_odd(cur, pipeline.name, target.table)
            follow(cur, target.table)
            become(cur, PLANNER)


def follow(cur: cursor, table: str) -> None:
    """Gives the images the columns that their table has got, and the reader's function with them."""
    images, target = f"{SCHEMA}.{feed_name(table)}", {"target": table}
    named = {"images": table_name(images)}
    cur.execute(Q["other_columns"], target | {"images": images})
    others = every(cur)
    for row in others:
        parts = named | {"column": sql.Identifier(row.name), "type": sql.SQL(row.type)}
        cur.execute(sql.SQL(Q["retype_column" if row.is_there else "add_column"]).format(**parts))
    if others:
        _make_reader(cur, table)


def _misses(cur: cursor, table: str) -> str | None:
    cur.execute(Q["misses"], {"target": table})
    found: str | None = one(cur).misses
    return found


def _make(cur: cursor, pipeline: str, target: Target, feed: Feed, *, is_there: bool) -> None:
    table, values = target.table, {"target": target.table}
    _refuse_odd(cur, pipeline, table)
    if is_there and _misses(cur, table) is None:
        cur.execute(Q["keep"], values | {"keep": feed.keep})
        _make_reader(cur, table, anew=False)  # an earlier version may have drawn it
        return
    cur.execute(Q["hold_commits"], values)
    parts: dict[str, Composable] = {
        "target": table_name(table),
        "images": sql.Identifier(SCHEMA, feed_name(table)),
        "name": sql.Literal(table),
    }
    try:
        cur.execute(sql.SQL(Q["lock_target"]).format(**parts))
        if is_there:
            _refuse_lost(cur, pipeline, table)
            refuse_filled_columns(cur, pipeline, [table])
            _follow_retyped(cur, pipeline, target)
            cur.execute(Q["keep"], values | {"keep": feed.keep})
            _make_reader(cur, table, anew=False)
        else:
            facts = values | {
                "name": feed_name(table),
                "key": list(row_key(target)),
                "keep": feed.keep,
                "sends": isinstance(target, Send),
            }
            cur.execute(sql.SQL(Q["open_feed"]).format(**parts), facts)
            cur.execute(sql.SQL(Q["make_images"]).format(**parts))
            _make_reader(cur, table)
        cur.execute(sql.SQL(Q["catch"]).format(**parts))
    except errors.InsufficientPrivilege as error:
        raise Refusal(
            f"{pipeline}: lockstep_owner may not follow the changes of {table}: {first_line(error)}",
            next_command=f"alter table {table} owner to lockstep_targets, then lockstep migrate {pipeline}",
        ) from None
    except errors.UniqueViolation:
        raise BadDefinition(
            f"{pipeline}: the feed of {table} would be called {feed_name(table)}, as that of another table is",
            next_command="give the table another name",
        ) from None


def _follow_retyped(cur: cursor, pipeline: str, target: Target) -> None:
    """Lets the images follow their table. Refuses a new type under which the rows are not what the feed tells of them."""
    cur.execute(Q["retyped"], {"target": target.table, "images": f"{SCHEMA}.{feed_name(target.table)}"})
    retyped = every(cur)
    try:
        follow(cur, target.table)
        wrong = str(what) if retyped and (what := other_rows(cur, pipeline, target)).count else ""
    except (errors.DatatypeMismatch, errors.DataError) as error:
        wrong = first_line(error)
    if wrong:
        raise Refusal(
            f"{pipeline}: {target.table}.{retyped[0].name} has another type than in its feed, and other values: {wrong}",
            next_command=f"alter table {target.table} alter column {retyped[0].name} type {retyped[0].type} using ..., "
            f"with the values of before, then lockstep migrate {pipeline}",
        )


def _refuse_odd(cur: cursor, pipeline: str, table: str) -> None:
    cur.execute(Q["as_found"], {"target": table})
    found = one(cur)
    if found.odd:
        raise BadDefinition(
            f"{pipeline}: target.feed: {table} is {found.odd}, and a feed follows a plain table of rows",
            next_command=f"leave feed out, or change target.sql, then lockstep migrate {pipeline}",
        )
    if clash := feed_clash(found.columns or ()):
        raise BadDefinition(
            f"{pipeline}: target.feed: {table} has {clash}",
            next_command=f"give it another name in the definition and in {table}, then lockstep migrate {pipeline}",
        )


def _refuse_lost(cur: cursor, pipeline: str, table: str) -> None:
    """Refuses a table that has lost a column: images of before hold its values, and rows do not."""
    cur.execute(Q["lost_columns"], {"target": table, "images": f"{SCHEMA}.{feed_name(table)}"})
    row = maybe(cur)
    if row is not None:
        raise Refusal(
            f"{pipeline}: {table} has lost the column {row.name}, which its feed tells of",
            next_command=f"alter table {table} add column {row.name} ..., as it was, then lockstep migrate {pipeline}",
        )


def _make_reader(cur: cursor, table: str, *, anew: bool = True) -> None:
    """Makes the reader's functions, without and with a timeline. If not made `anew`, they keep columns and rights."""
    images = f"{SCHEMA}.{feed_name(table)}"
    parts: dict[str, Composable] = {"reader": table_name(f"{images}_from"), "images": table_name(images)}
    if anew:
        cur.execute(sql.SQL(Q["drop_reader"]).format(**parts))
    cur.execute(Q["columns"], {"images": images})
    columns = every(cur)
    parts |= {
        "name": sql.Literal(table),
        "columns": sql.SQL(", ").join(sql.SQL("i.{}").format(sql.Identifier(row.name)) for row in columns),
        "typed": _typed(columns, READER_COLUMNS),
    }
    cur.execute(sql.SQL(Q["make_reader"]).format(**parts))
    parts |= {
        "columns": sql.SQL(", ").join(sql.Identifier("r", reader_name(row.name)) for row in columns),
        "typed": _typed(columns, TIMELINE_COLUMNS),
        "signature": sql.Literal(f"{images}_from(bigint, int)"),
    }
    cur.execute(sql.SQL(Q["make_timeline_reader"]).format(**parts))


def _typed(columns: Sequence[Any], own: tuple[str, ...]) -> Composable:
    names = ((sql.Identifier(reader_name(row.name, own)), sql.SQL(row.type)) for row in columns)
    return sql.SQL(", ").join(sql.SQL("{} {}").format(*each) for each in names)
