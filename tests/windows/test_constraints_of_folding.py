"""Tests that the database keeps what was folded: raw SQL as the owner, without the code's checks."""

from __future__ import annotations

import os

import psycopg2
import pytest

from lockstep.adapters.postgres import COMMITTER, OWNER, PLANNER
from support.scenes.undone import roles_that_may, undone
from windows.conftest import Timed

TWO = "(key ->> 0)::timestamptz = '2026-05-01T12:00Z' and batch_id in (1, 2)"
TAKES = f"""update lockstep.contribution c set records = case batch_id when 2 then 3 else 0 end,
    folded = case batch_id when 2 then 2 else 0 end, totals = case batch_id when 2 then totals else '{{{{}}}}' end
    where {TWO} and stream_id = (select stream_id from lockstep.stream where partition = {{partition}})"""
OPEN = "(key ->> 0)::timestamptz > '2026-05-01T13:00Z'"
FOLDED = TAKES.format(partition=0)
ONE = f"where {TWO} and batch_id = 1"
CLAIMED = """insert into lockstep.request (pipeline, lane, token, who, why) values ('house', 'replay', 1000, 'me', 'x');
    insert into lockstep.batch (pipeline, lane, request_id, owner, lease_until)
        select 'house', 'replay', max(request_id), 'me', now() + interval '1 hour' from lockstep.request;
    insert into lockstep.batch_range select max(b.batch_id), s.stream_id, int8range({low}, {high})
        from lockstep.batch b, lockstep.stream s where s.partition = 0 group by s.stream_id;
    insert into lockstep.claim (stream_id, offsets, batch_id, expects, expects_batch)
        select s.stream_id, int8range({low}, {high}), max(b.batch_id), 'batch', {of}
        from lockstep.batch b, lockstep.stream s where s.partition = 0 group by s.stream_id; """
FIRST, SECOND = CLAIMED.format(low=0, high=3, of=1), CLAIMED.format(low=3, high=5, of=2)
PUT = """insert into lockstep.contribution (target, key, batch_id, stream_id, records, "offset", ordinal, totals, folded)
    select target, key, {batch}, stream_id, {records}, "offset", ordinal, totals, {folded} from lockstep.contribution """
ARCHIVED = f"""insert into lockstep.archived (stream_id, offsets, path, records, bytes, digest_sum, digest_squares, sha256,
    log_start) select stream_id, '[1, 2)', 'house/a', 1, 1, 0, 0, '{"0" * 64}', 0 from lockstep.stream where partition = 0; """
NEWEST = "(select max(batch_id) from lockstep.batch)"
# constraint → what must be refused, by its name
REFUSED = [
    ("folded_whole", f"update lockstep.contribution set records = records + 1 {ONE}"),
    ("folded_whole", f"update lockstep.contribution set records = 0, totals = '{{}}' {ONE}"),
    ("folded_whole", f"update lockstep.contribution set records = records + 1, folded = 1 {ONE}"),
    ("folded_whole", f"update lockstep.contribution set totals = '{{}}' {ONE}"),
    ("folded_whole", f'update lockstep.contribution set "offset" = 7 {ONE}'),
    ("folded_whole", f"update lockstep.contribution set batch_id = 3 {ONE}"),
    ("folded_whole", f"""update lockstep.contribution set key = jsonb_set(key, '{{1}}', '"z"') {ONE}"""),
    ("folded_below_log_start", "update lockstep.contribution set records = records where batch_id = 3"),
    ("folded_unclaimed", FIRST + FOLDED),
    ("folded_unarchived", ARCHIVED + FOLDED),
    ("folded_when_passed", f"update lockstep.contribution set records = records where {OPEN}"),
    ("contribution_records_check", f"update lockstep.contribution set records = 0, folded = 1 {ONE}"),
    ("contribution_records_check", f"update lockstep.contribution set folded = records {ONE}"),
    ("contribution_stays", "delete from lockstep.contribution where batch_id = 1"),
    ("contribution_stays", FOLDED + "; delete from lockstep.contribution where batch_id = 2"),
    ("contribution_stays", FOLDED + ";" + SECOND + "delete from lockstep.contribution where batch_id = 2 and folded > 0"),
    ("folded_by_update", FIRST + PUT.format(batch=NEWEST, records=2, folded=1) + ONE),
    ("folded_by_update", FIRST + PUT.format(batch=NEWEST, records=0, folded=0) + ONE),
    ("folded_stays", FOLDED + ";" + FIRST + PUT.format(batch=NEWEST, records=1, folded=0) + f"where {TWO} and folded > 0"),
    ("folded_once", FOLDED + "; insert into lockstep.folded select * from lockstep.folded"),
]  # fmt: skip
CASES = [
    pytest.param(name, statement, id=f"{name}-{sum(n == name for n, _ in REFUSED[:place])}")
    for place, (name, statement) in enumerate(REFUSED)
]


@pytest.fixture(scope="module")
def guarded(servers, tmp_path_factory):
    """Yields a closed and an open window, to which two batches contribute that end at the log start that a batch has seen.

    Every test takes back what it does.
    """
    with servers.database(f"folding_{os.getpid()}") as dsn:
        scene = Timed(dsn, tmp_path_factory.mktemp("folding"))
        scene.put(0, 0, 10, 5_000)
        scene.done()
        scene.put(0, 20, 5_000)
        scene.done()
        for partition in range(3):
            scene.put(partition, 500)
        scene.done()
        scene.log.trim(0, 5)
        scene.put(0, 510)
        scene.done()
        yield scene
        scene.end()


@pytest.mark.parametrize(("name", "statement"), CASES)
def test_a_constraint_refuses_by_itself(guarded, name, statement):
    with pytest.raises(psycopg2.Error) as refused, undone(guarded.at.conn, OWNER) as cur:
        cur.execute(statement)
    assert (refused.value.diag.constraint_name, name in str(refused.value)) == (name, True)


@pytest.mark.parametrize(
    "statement",
    [
        FOLDED,
        "delete from lockstep.target_owner; " + FOLDED,
        FOLDED + "; delete from lockstep.contribution where records = 0",
        FIRST + "delete from lockstep.contribution where batch_id = 1",
        FIRST + PUT.format(batch=NEWEST, records=1, folded=0) + ONE,
    ],
)
def test_what_folding_and_replays_do_by_themselves_is_allowed(guarded, statement):
    with undone(guarded.at.conn, OWNER) as cur:
        cur.execute(statement)


def test_the_database_itself_writes_down_what_was_folded(guarded):
    with undone(guarded.at.conn, OWNER) as cur:
        cur.execute(FOLDED)
        cur.execute("select target, batch_id, records from lockstep.folded")
        assert [tuple(row) for row in cur.fetchall()] == [("public.house", 1, 2)]


@pytest.mark.parametrize(
    ("statement", "may"),
    [
        ("update lockstep.contribution set records = records where false", {PLANNER}),
        ("update lockstep.contribution set key = key where false", set()),
        ("delete from lockstep.contribution where false", {PLANNER, COMMITTER}),
        ("insert into lockstep.folded select * from lockstep.folded", set()),
        ("update lockstep.folded set records = records where false", set()),
        ("delete from lockstep.folded where false", set()),
    ],
)
def test_a_role_of_a_run_writes_no_more_of_it_than_its_step_needs(guarded, statement, may):
    assert roles_that_may(guarded.at.conn, statement) == may
