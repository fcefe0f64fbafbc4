"""Opens the session that target.sql runs in.

Its login is its own. It has the targets' role and no rights on the ledger.
"""

from __future__ import annotations

import secrets
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg2
from psycopg2 import errors, sql
from psycopg2.extensions import encrypt_password, make_dsn

from lockstep.adapters.postgres import OWNER, TARGETS_ROLE, Place, connect, transaction
from lockstep.adapters.postgres_words import first_line, last_line
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.lake.iceberg import database_places, is_lake_table
from lockstep.core.pipeline.targets import Append, History
from lockstep.ledger.admin.origin_index import index_new_tables
from lockstep.ledger.admin.version_indexes import guard_new_histories
from lockstep.ledger.feed.filled import refuse_filled_columns
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.core.pipeline.targets import Target

Q = queries("lockstep.ledger.admin", "author")
TARGETS_DSN_VARIABLE = "LOCKSTEP_TARGETS_DSN"
OWN_LOGIN = f"set {TARGETS_DSN_VARIABLE} to a login that has {TARGETS_ROLE} and nothing else"
AUTHOR_PLACE = Place("the ledger's database, for target.sql,", TARGETS_DSN_VARIABLE, OWN_LOGIN)


@dataclass(frozen=True, slots=True)
class ForeignCode:
    """Code of an author that a run would execute: its table, the object that calls it, and its name."""

    relation: str
    what: str
    runs: str

    def __str__(self) -> str:
        return f"{self.what} on {self.relation} runs {self.runs}"

    @property
    def remedy(self) -> str:
        """Returns the way to remove the code, or to make it the operator's own."""
        kind, _, name = self.runs.partition(" ")
        if kind == "type":
            return f"take it out of target.sql, or review it, then: alter type {name} owner to {OWNER}"
        if self.runs.endswith(")"):
            return f"take it out of target.sql, or review it, then: alter function {self.runs} owner to {OWNER}"
        return "take it out of target.sql"


def foreign_code(cur: cursor, tables: Sequence[str]) -> ForeignCode | None:
    """Finds code on these tables that would run under a run's role.

    Leaves out code that a member of the ledger's owner made.
    """
    cur.execute(Q["foreign_code"], {"tables": list(tables)})
    row = maybe(cur)
    return ForeignCode(row.relation, row.what, row.runs) if row else None


def written_by_runs(cur: cursor) -> set[str]:
    """Lists the tables of this database that pipelines write. Those of the lake are not in it."""
    cur.execute(Q["written_by_runs"])
    return {row.target for row in every(cur) if not is_lake_table(row.target)}


def take_over_table(cur: cursor, pipeline: str, table: str) -> None:
    """Gives a table of the ledger's owner, as earlier versions made it, to the targets' owner."""
    cur.execute(Q["take_over"], {"table": table})
    for row in every(cur):
        try:
            cur.execute(sql.SQL(Q["give_to_targets"]).format(table=sql.Identifier(row.schema, row.name)))
        except errors.InsufficientPrivilege as error:
            raise Refusal(
                f"{pipeline}: {row.schema}.{row.name} cannot become {TARGETS_ROLE}'s: {first_line(error)}",
                next_command=f"grant create on schema {row.schema} to {TARGETS_ROLE}",
            ) from None


def run_as_author(
    conn: connection,
    pipeline: str,
    text: str,
    tables: Sequence[str],
    own_login: str | None,
    targets: Sequence[Target] = (),
) -> None:
    """Runs target.sql in a session of its own and commits it. New tables of `targets` get their indexes.

    Refuses it if it leaves code behind that a run would execute. `own_login` is a DSN of the operator's. Without one, a
    login is made for this run and dropped afterwards.
    """
    with _session(conn, own_login) as author, transaction(author, None) as cur:
        try:
            wait_for_others(cur)
            cur.execute("reset search_path")
            cur.execute("select set_config('lockstep.target_sql', %s, true)", (text,))
            cur.execute(Q["run_text"])
            cur.execute(Q["own_names"])
            index_new_tables(cur, [t.table for t in database_places(targets).values() if not isinstance(t, Append)])
            guard_new_histories(cur, [each for each in targets if isinstance(each, History)])
            _refuse_what_waits(cur, pipeline)
            cur.execute(Q["settle"])
        except psycopg2.OperationalError:
            raise  # a lock, or the connection
        except psycopg2.Error as error:
            raise BadDefinition(
                f"{pipeline}: target.sql is refused: {first_line(error)}",
                next_command=f"change target.sql, then lockstep migrate {pipeline}",
            ) from None
        refuse_filled_columns(cur, pipeline, tables)
        left = foreign_code(cur, tables)
        if left:
            raise Refusal(
                f"{pipeline}: {left}, and each run would run it with the ledger's rights", next_command=left.remedy
            )


def wait_for_others(cur: cursor) -> None:
    """Lets no other migration of a target begin. `if not exists` does not help two that make one table together."""
    cur.execute(Q["one_at_a_time"])


def _refuse_what_waits(cur: cursor, pipeline: str) -> None:
    cur.execute(Q["waits_for_commit"])
    row = maybe(cur)
    if row:
        raise Refusal(
            f"{pipeline}: {row.name} on {row.relation} would run at COMMIT, behind every check",
            next_command="make it not deferrable, or take it out of target.sql",
        )


@contextmanager
def _session(conn: connection, own_login: str | None) -> Iterator[connection]:
    if own_login is not None:
        with closing(connect(own_login, name="lockstep target.sql", place=AUTHOR_PLACE)) as author:
            _require_no_more(conn, author)
            with transaction(author, None) as cur:
                cur.execute("select set_config('role', %s, false)", (TARGETS_ROLE,))
            yield author
        return
    with _login(conn) as dsn, closing(connect(dsn, name="lockstep target.sql", place=AUTHOR_PLACE)) as author:
        yield author


def _require_no_more(conn: connection, author: connection) -> None:
    """Refuses an operator's login that may take on more than the targets' role, or is of another database."""
    with transaction(conn, None) as cur:
        cur.execute(Q["whose_session"])
        ledger = one(cur)
    with transaction(author, None) as cur:
        cur.execute(Q["whose_session"])
        found = one(cur)
    if (found.server, found.database) != (ledger.server, ledger.database):
        raise Refusal(f"{TARGETS_DSN_VARIABLE} leads to another database than the ledger's", next_command=OWN_LOGIN)
    if found.more:
        raise Refusal(
            f"{TARGETS_DSN_VARIABLE}: {found.login} may become {found.more}: {OWN_LOGIN}", next_command=OWN_LOGIN
        )
    if not found.targets:
        raise Refusal(f"{TARGETS_DSN_VARIABLE}: {found.login} is no member of {TARGETS_ROLE}", next_command=OWN_LOGIN)


@contextmanager
def _login(conn: connection) -> Iterator[str]:
    """Creates a login for this block alone, and yields its DSN.

    After the block it is gone, and nobody is connected as it.
    """
    password = secrets.token_urlsafe(32)
    with transaction(conn, None) as cur:
        cur.execute(Q["name_of_login"])
        name, until = one(cur)
        cur.execute(Q["left_logins"])
        left = [row.login for row in every(cur)]
    for each in left:
        with suppress(errors.UndefinedObject, errors.InternalError_):  # another migration drops it at the same time
            _drop(conn, each)
    parts = {
        "login": sql.Identifier(name),
        "password": sql.Literal(encrypt_password(password, name, conn, "scram-sha-256")),
        "until": sql.Literal(until),
    }
    try:
        with transaction(conn, None) as cur:
            cur.execute(sql.SQL(Q["make_login"]).format(**parts))
    except errors.InsufficientPrivilege as error:
        raise Refusal(
            f"this login may not make one for target.sql: {last_line(error)}; it needs CREATEROLE",
            next_command=OWN_LOGIN,
        ) from None
    try:
        given = conn.info.dsn_parameters
        # The role is the session's own: `reset role` comes back to it.
        options = f"{given.get('options', '')} -c role={TARGETS_ROLE}".strip()
        yield make_dsn(**given | {"user": name, "password": password, "options": options})
    finally:
        if not conn.closed:
            _drop(conn, name)


def _drop(conn: connection, login: str) -> None:
    parts = {"login": sql.Identifier(login), "name": sql.Literal(login)}
    for statements in ("shut_out", "drop_login"):
        with transaction(conn, None) as cur:
            cur.execute(sql.SQL(Q[statements]).format(**parts))
