"""Tests that the database counts no wrong file: raw SQL as the owner, without the code's own checks."""

from __future__ import annotations

import psycopg2
import pytest
from psycopg2 import errors

from lockstep.adapters.postgres import OWNER, transaction
from lockstep.core.pipeline.definition import Append, Archive, Json, Pipeline
from lockstep.ledger.batch import archived
from support.fakes.ledger_rows import TOPIC, commit_in, view
from support.scenes.undone import roles_that_may

HEX = "0" * 64
PUT = """insert into lockstep.archived (stream_id, offsets, path, records, bytes, digest_sum, digest_squares, sha256, log_start)
    values (%({stream})s, int8range({low}, {high}, '{bounds}'), '{path}', {records}, {size}, 0, 0, '{sha256}', {start}) """


def put(low: object = 0, high: object = 10, stream: str = "s", **more: object) -> str:
    known = {"path": f"orders/{stream}/{low}", "records": 1, "size": 9, "sha256": HEX, "start": 0, "bounds": "[)"}
    return PUT.format(stream=stream, low=low, high=high, **known | more)


DECIDE = """insert into lockstep.decision (pipeline, kind, who, why, detail)
    values ('{pipeline}', '{kind}', 'me', 'old', '{{}}'); """
DROP = """insert into lockstep.archive_drop (archived_id, decision_id)
    select a.archived_id, d.decision_id from lockstep.archived a, lockstep.decision d; """
DECIDED = DECIDE.format(pipeline="orders", kind="drop-archived")
MERGE = """delete from lockstep.coverage where stream_id = %(s)s;
    insert into lockstep.coverage (stream_id, offsets, kind, batch_id) values (%(s)s, int8range(0, 20), 'batch', %(b)s)"""
# constraint → what must be refused, by its name. %(s)s has [0, 20) committed by two batches, %(b)s the second of them.
# %(n)s is a newer stream of the same log, %(o)s one of a log that was replaced.
REFUSED = [
    ("archived_once", put() + ";" + put(9, 12)),
    ("one_row_a_file", put() + ";" + put(10, 12, path="orders/s/0")),
    ("archived_half_open", put(0, 0)),
    ("archived_half_open", put(3, "null")),
    ("archived_from_the_log", put(5, 10, start=6)),
    ("archived_counts", put(records=11)),
    ("archived_counts", put(records=-1)),
    ("archived_counts", put(size=0)),
    ("archived_sha256_check", put(sha256="0" * 63)),
    ("archived_in_time", "update lockstep.stream set upkept_below = 6 where stream_id = %(n)s;" + put(5, 10)),
    ("archived_of_one_log", put(stream="n")),
    ("archived_of_one_log", put(stream="o")),
    ("dropped_by_decision", put() + ";" + DECIDE.format(pipeline="orders", kind="pause") + DROP),
    ("dropped_by_decision", put() + "; insert into lockstep.pipeline (name) values ('others');"
        + DECIDE.format(pipeline="others", kind="drop-archived") + DROP),
    ("dropped_when_done", put(19, 21) + ";" + DECIDED + DROP),
    ("dropped_when_done", put() + """; insert into lockstep.claim (stream_id, offsets, batch_id, expects, expects_batch)
        select %(s)s, int8range(5, 6), %(b)s, 'batch', %(b)s;""" + DECIDED + DROP),
    ("archived_stays_apart", put(19, 20) + ";" + MERGE),
]  # fmt: skip
CASES = [
    pytest.param(name, statement, id=f"{name}-{sum(n == name for n, _ in REFUSED[:place])}")
    for place, (name, statement) in enumerate(REFUSED)
]


@pytest.fixture
def logs(ledger):
    """Returns a log that grew behind offset 20, and one that was replaced."""
    s = ledger.stream(0)
    ledger.done({s: (0, 10)})
    b, _ = ledger.done({s: (10, 20)})
    ledger.retired(s)
    n = ledger.stream(0, start=20, epoch=1)
    o = ledger.stream(1)
    ledger.retired(o)
    ledger.stream(1, incarnation=1, epoch=1)
    return {"s": s, "b": b, "n": n, "o": o}


@pytest.mark.parametrize(("name", "statement"), CASES)
def test_a_constraint_of_the_archive_refuses_by_itself(ledger, logs, name, statement):
    with pytest.raises(psycopg2.Error) as refused, transaction(ledger.conn, OWNER) as cur:
        cur.execute(statement, logs)
    assert (refused.value.diag.constraint_name, name in str(refused.value)) == (name, True)


def test_what_is_archived_and_dropped_is_never_changed_by_a_role_of_a_run(ledger, logs):
    for statement in (
        "update lockstep.archived set sha256 = path",
        "delete from lockstep.archived",
        "update lockstep.archive_drop set at = now()",
        "delete from lockstep.archive_drop",
    ):
        assert roles_that_may(ledger.conn, statement, logs) == set(), statement


def test_a_merge_is_allowed_where_the_archive_was_dropped(ledger, logs):
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(put() + ";" + DECIDED + DROP + MERGE, logs)
    assert ledger.ask("select count(*) from lockstep.coverage where kind = 'batch'") == [(1,)]


def test_a_log_that_grew_has_one_archive_and_a_replaced_one_gives_none(ledger, logs):
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(put(0, 12) + ";" + put(12, 30), logs)
        pipeline = Pipeline("orders", TOPIC, Json("id string"), Append("public.o"), archive=Archive("file:///a"))
        seen = archived.with_archive(cur, pipeline, view((40, 50), (3, 50)))
        assert seen.bounds[0].archived == ((0, 30),)
        assert seen.bounds[1].archived == ()
        (log, _) = archived.logs_to_archive(cur, "orders", view((40, 50), (3, 50)))
        assert (log.stream_id, log.froms, log.untils) == (logs["s"], [0, 12], [12, 30])


@pytest.mark.parametrize(
    ("before", "held", "is_whole"),
    [
        (0, (0, 5), False),  # it began in the log, and lost its beginning while it was read
        (1, (0, 5), True),
        (3, (0, 4), False),  # the archive lacks an offset
        (3, (1, 9), False),
        (3, (0, 50), True),
    ],
)
def test_read_whole_is_by_log_and_archive_together(ledger, before, held, is_whole):
    s = ledger.stream(0)
    b = ledger.planned({s: (0, 10)})
    t = ledger.opened(b)

    def commit() -> None:
        with transaction(ledger.conn, OWNER) as cur:
            cur.execute(put(*held), {"s": s})
            cur.execute("alter table lockstep.result alter log_start_before drop not null")
            cur.execute(
                """create function pg_temp.trim() returns trigger language plpgsql as $$ begin
                new.log_start_before := {before}; new.log_start_after := 5; return new; end $$;
                create trigger trim before insert on lockstep.result for each row execute function pg_temp.trim()""".replace(
                    "{before}", str(before)
                )
            )
            commit_in(cur, b, t)

    if is_whole:
        commit()
        assert ledger.ask("select count(*) from lockstep.commit") == [(1,)]
    else:
        with pytest.raises(errors.CheckViolation, match="read_whole"):
            commit()
