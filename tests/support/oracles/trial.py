"""Tries statements one by one inside the server: each in a savepoint, with its deferred checks, and taken back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from support.inputs.every_statement import Statement

BATCH = 2000
WRITES = "select sum(n_tup_ins + n_tup_upd + n_tup_del) from pg_stat_xact_all_tables"
# The exception at its end takes back what the statement did, and says how many rows that were.
TRY = """create function pg_temp.attempts(statements text[], effects text[], out place int, out state text, out said text)
returns setof record language plpgsql as $$
declare
    before text;
    later text;
    n bigint;
begin
    for i in 1 .. array_length(statements, 1) loop
        begin
            before := null;
            later := 'x';
            if effects[i] is not null then
                execute effects[i] into before;
            end if;
            execute statements[i];
            get diagnostics n = row_count;
            set constraints all immediate;
            if effects[i] is not null then
                execute effects[i] into later;
            end if;
            raise exception using errcode = 'ACCPT', message = case when later is distinct from before then n else -1 end;
        exception when others then
            get stacked diagnostics state = returned_sqlstate, said = message_text;
        end;
        place := i;
        return next;
    end loop;
end $$"""
NEEDS_ROWS = frozenset({"insert", "update", "delete", "close"})


@dataclass(slots=True)
class Trial:
    """What a login tried: accepted statements by their keys, with an example each, and refusals by SQLSTATE."""

    count: int = 0
    accepted: dict[tuple[str, str, str, str], str] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    nothing: int = 0


def try_each(conn: connection, role: str | None, statements: list[Statement]) -> Trial:
    """Tries each statement under a role, or as the login itself. Nothing of it is kept."""
    answer = Trial()
    with conn.cursor() as cur:
        cur.execute(TRY)
        cur.execute("set lock_timeout = '10s'")
        if role is not None:
            cur.execute(f"set role {role}")
        for begin in range(0, len(statements), BATCH):
            part = statements[begin : begin + BATCH]
            effects = [WRITES if each.effect == "writes" else each.effect for each in part]
            cur.execute("select * from pg_temp.attempts(%s, %s::text[])", ([each.sql for each in part], effects))
            for place, state, said in cur.fetchall():
                _count(answer, part[place - 1], state, said)
    conn.rollback()
    return answer


def _count(answer: Trial, statement: Statement, state: str, said: str) -> None:
    answer.count += 1
    if state != "ACCPT":
        answer.refused[state] += 1
        answer.examples.setdefault(state, f"{said}: {statement.sql}")
        return
    kind, *rest = statement.key
    if kind == "call" and said != "-1":
        kind = "change"
    if (kind in NEEDS_ROWS and said == "0") or (said == "-1" and kind != "call"):
        answer.nothing += 1
        return
    answer.accepted.setdefault((kind, *rest), statement.sql)  # type: ignore[arg-type]
