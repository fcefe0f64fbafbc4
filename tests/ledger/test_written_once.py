"""Tests a target whose rows are written once: a view hides them from everybody until their batch is committed."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import READER, connect, snapshot, transaction
from lockstep.core.errors import BadData, Refusal, Superseded
from lockstep.core.health.ledger_findings import target_findings
from lockstep.core.ledger_rights import OF_A_RUN
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.planning.decisions import Caller
from lockstep.core.proof.accounting import Digest, ManifestLine, nothing
from lockstep.core.staging import AttemptId
from lockstep.core.states import Lane, RangeEnd
from lockstep.engine.sinks.range_rows import RangeRows
from lockstep.ledger.admin.facts import target_facts
from lockstep.ledger.admin.shown_view import of_rows
from lockstep.ledger.batch import hidden
from lockstep.ledger.migrate import migrate_target
from lockstep.ledger.proof.verify import ledger_checks
from lockstep.ledger.proof.verify_contents import CONTENTS_AS_COMMITTED
from lockstep.ledger.staging.contents import Published
from lockstep.ledger.views.tracing import outcome_of_record
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.changes import decisions, evolve
from lockstep.steps.proof.verify import verify
from lockstep.steps.ranges import land_range, stage_once
from lockstep.steps.upkeep.reap import reap
from support.fakes.plain_engine import pieces
from support.scenes.here import ME, Here

TARGET = """create table if not exists public.drill_rows (id {text}, n int{more}, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));
"""
COUNTED = "select count(*), count(distinct (_stream, _offset)) from public.drill"
BEHIND = COUNTED.replace("public.drill", "public.drill_rows")
HIDDEN = "select batch_id, rows_table from lockstep.hidden_batch"
SAME = "on public.drill_rows for each row execute function suppress_redundant_updates_trigger()"
ROUTE = "select route ->> 'because' from lockstep.attempt order by token desc limit 1"


@pytest.fixture
def once(drill):
    """Yields `once(text=..., more=...)`, which gives the drill such a target."""
    opened = []

    def make(text: str = "text", more: str = "", then: str = "") -> Here:
        (drill.home / "drill" / "target.sql").write_text(TARGET.format(text=text, more=more) + then)
        with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute("set role lockstep_owner; drop table public.drill")
        here = Here(drill)
        opened.append(here)
        migrate_target(here.at.conn, here.folder)
        return here

    yield make
    for here in opened:
        here.at.close()


def staged(here: Here) -> AttemptId:
    """Does everything but the commit."""
    who = Caller("me", take_over=True)
    planned = plan(here.at.conn, here.at.broker, here.folder, who, datetime.now(UTC))
    assert planned.batch_id is not None, planned.decision
    attempt = stage(here.at, here.engine, here.folder, planned.batch_id, who)
    validate(here.at, here.folder, attempt)
    return attempt


def held(drill) -> None:
    assert drill.ask(COUNTED) == [(150, 150)]
    assert drill.ask(HIDDEN) == []
    assert drill.violations() == []


def task_of(here: Here, attempt: AttemptId) -> stage_once.RangesWrittenOnce:
    """Returns what a task of the attempt is given."""
    ranges = {
        stream: StreamRange(stream, OffsetRange(TopicPartition(here.drill.topic, partition), begin, end))
        for stream, partition, begin, end in here.drill.ask(
            "select stream_id, partition, lower(offsets), upper(offsets) from lockstep.batch_range join lockstep.stream "
            "using (stream_id) where batch_id = %s", attempt.batch_id)
    }  # fmt: skip
    return stage_once.RangesWrittenOnce(
        dsn=here.drill.dsn,
        broker=here.at.broker,
        pipeline=of_rows(here.folder.pipeline, "public.drill_rows"),
        attempt=attempt,
        lane=Lane.LIVE,
        ranges=ranges,
        columns=here.folder.pipeline.columns,
        logs={},
        definition_hash="",
        log_starts={},
        epochs={},
        shown="public.drill",
    )


def test_rows_are_there_before_the_commit_and_seen_from_it_on(once, drill):
    here = once()
    attempt = staged(here)
    assert drill.ask(BEHIND) == [(150, 150)]
    assert drill.ask(COUNTED) == [(0, 0)]
    assert drill.ask(HIDDEN) == [(attempt.batch_id, "public.drill_rows")]
    with transaction(here.at.conn, READER) as cur:
        assert outcome_of_record(cur, here.folder.pipeline, 0, 3)["rows"] == []
    commit(here.at, here.folder, attempt)
    held(drill)
    with transaction(here.at.conn, READER) as cur:
        assert [row["_offset"] for row in outcome_of_record(cur, here.folder.pipeline, 0, 3)["rows"]] == [3]
    assert "written once, into public.drill_rows" in drill.ask(ROUTE)[0][0]
    assert drill.ask("select bool_and(n = substr(id, 2)::int) from public.drill") == [(True,)]
    assert all(check.ok for check in verify(here.at.conn, here.at.broker, here.folder, deep=True))


def test_a_snapshot_sees_the_batch_and_its_rows_or_neither(once, drill):
    """By batch, a snapshot from before the commit sees the rows. Here it does not, whenever it began."""
    here = once()
    with closing(connect(drill.dsn)) as early, closing(connect(drill.dsn)) as late:
        both = "select (select count(*) from public.drill) as rows, (select count(*) from lockstep.commit) as commits"
        with snapshot(early, READER) as first:
            first.execute(both)
            attempt = staged(here)
            with snapshot(late, READER) as second:
                second.execute(both)
                assert second.fetchone() == (0, 0)
                commit(here.at, here.folder, attempt)
                for cur in (first, second):
                    cur.execute(both)
                    assert cur.fetchone() == (0, 0)
                    assert [check for check in ledger_checks(cur, here.folder.pipeline) if not check.ok] == []
    assert drill.ask(both) == [(150, 3)]


def test_a_row_that_was_changed_behind_the_view_is_named_by_verify(once, drill):
    here = once()
    attempt = staged(here)
    drill.ask("update public.drill_rows set n = -1 where id = 'r7' returning 1")
    commit(here.at, here.folder, attempt)
    checks = verify(here.at.conn, here.at.broker, here.folder, deep=False)
    assert [check.name for check in checks if not check.ok] == [CONTENTS_AS_COMMITTED]


def test_the_next_batch_says_beforehand_which_way_its_rows_go(once):
    here = once()
    assert stage_once.next_route(here.at, here.engine, here.folder, ()).because == (
        "a reader of the tests; rows are written once, into public.drill_rows, and shown by the commit"
    )


def test_what_a_dead_attempt_has_left_goes_before_the_next_one_writes(once, drill):
    here = once()
    here.code = lambda value: value | {"n": 0}
    staged(here)
    here.code = lambda value: value if value["n"] % 2 else None  # half of the records give no row any more
    left = drill.ask(BEHIND)
    try:
        commit(here.at, here.folder, staged(here))
    except BadData as refused:
        pytest.fail(str(refused))
    assert left == [(150, 150)]
    assert drill.ask(BEHIND) == drill.ask(COUNTED) == [(75, 75)]
    assert drill.ask("select bool_and(n = substr(id, 2)::int) from public.drill") == [(True,)]
    assert [
        check for check in verify(here.at.conn, here.at.broker, here.folder_as_run, deep=False) if not check.ok
    ] == []


def test_a_row_that_no_task_of_this_attempt_copied_refuses_the_range(once, drill, monkeypatch):
    here = once()
    staged(here)
    here.code = lambda value: value if value["n"] else None  # the first attempt has a row of it, and this one has none
    clear = hidden.clear
    but_one = "delete from public.drill_rows where n <> 0"
    monkeypatch.setattr(hidden, "clear", lambda cur, *_: cur.execute(but_one))
    with pytest.raises(BadData, match="another attempt's are among them"):
        staged(here)
    assert drill.ask(COUNTED) == [(0, 0)]
    monkeypatch.setattr(hidden, "clear", clear)
    commit(here.at, here.folder, staged(here))
    assert drill.ask(COUNTED) == [(149, 149)]


def test_a_second_try_of_a_task_finds_what_the_first_has_copied(once, drill):
    here = once()
    attempt = staged(here)
    task = task_of(here, attempt)
    with task.session() as session:
        for stream in task.ranges:
            assert session.is_committed(stream)
            line = ManifestLine(7, stream, 0, 0, 0, 0, 0, Digest())
            assert session.commit(line).what == RangeEnd.FOUND
    commit(here.at, here.folder, attempt)
    held(drill)


def test_a_zombie_behind_a_newer_attempt_copies_nothing(once, drill, monkeypatch):
    here = once()
    assert drill.run(fault="stage.session_up=kill") == {"killed": "SIGKILL"}
    ((token, nonce),) = drill.ask("select token, nonce::text from lockstep.batch")
    zombie = task_of(here, AttemptId(1, token, nonce))
    here.code = lambda value: value if value["n"] % 2 else None
    newer = staged(here)
    stream = min(zombie.ranges)
    ((free,),) = drill.ask(  # an offset where the newer attempt has left no row: no key is in the zombie's way
        "select min(o) from generate_series(0, 49) o where not exists ("
        "select from public.drill_rows where _stream = %s and _offset = o)", stream)  # fmt: skip
    fields = (stream, free, 0, 7, "2026-05-01T12:00:00+00:00", "false", *["\\N"] * 4, "r0", "0")
    (rows,) = pieces("\t".join(map(str, fields)) + "\n", zombie.columns, 1)
    looked = Published("public.drill", (), {stream: 0}, {stream: 1})
    monkeypatch.setattr(land_range, "of_ranges", lambda *_, **__: looked)  # its look would find the others' rows
    with zombie.session() as session:
        made = RangeRows(session, stream, 1)
        made.take(rows)
        with pytest.raises(Superseded, match=f"attempt {token} of batch 1 may not commit"):
            made.commit(ManifestLine(7, stream, 1, 1, 0, 1, 1, Digest(1, 0, 0), 0, 0))
    commit(here.at, here.folder, newer)
    assert drill.ask(BEHIND) == drill.ask(COUNTED) == [(75, 75)]


def test_a_piece_of_a_range_refuses_the_whole_and_the_next_attempt_does_not_cut(once, drill):
    """A reader has died behind the first piece, and whole ranges are read again."""
    here = once()
    assert drill.run(fault="stage.session_up=kill") == {"killed": "SIGKILL"}
    ((token, nonce),) = drill.ask("select token, nonce::text from lockstep.batch")
    task = task_of(here, AttemptId(1, token, nonce))
    whole = task.ranges[min(task.ranges)]
    piece = replace(whole, offsets=replace(whole.offsets, until_offset=whole.offsets.from_offset + 9))
    with task.of_part((piece,)).session() as session:
        assert [session.commit(nothing(piece)).what for _ in range(2)] == [RangeEnd.COMMITTED, RangeEnd.FOUND]
        assert session.is_committed(whole.stream_id)
    with task.session() as session:
        assert not session.is_committed(whole.stream_id)
        refused = session.commit(nothing(whole))
    assert (refused.what, "9 of these offsets were copied in pieces" in refused.reason) == (RangeEnd.REFUSED, True)
    newer = staged(here)
    with transaction(here.at.conn, READER) as cur:
        assert (hidden.has_cut(cur, task.attempt), hidden.has_cut(cur, newer)) == (False, True)
    commit(here.at, here.folder, newer)
    held(drill)


def test_rejects_are_told_with_the_commit_and_not_before(once, drill, produce):
    here = once()
    produce(drill.topic, [("k", "{no json")])
    here.rewrite('target=Append("public.drill"),', 'target=Append("public.drill"), max_reject_share=0.5,')
    attempt = staged(here)
    assert drill.ask("select count(*) from lockstep.reject") == [(0,)]
    commit(here.at, here.folder, attempt)
    assert drill.ask("select reason, batch_id from lockstep.reject") == [
        ("not JSON: JSONDecodeError", attempt.batch_id)
    ]
    held(drill)


def test_too_many_rejects_refuse_the_batch_and_its_rows_stay_hidden(once, drill, produce):
    here = once()
    produce(drill.topic, [("k", "{no json")] * 150)
    here.rewrite('target=Append("public.drill"),', 'target=Append("public.drill"), max_reject_share=0.0,')
    here.rewrite("records=200", "records=400")
    with pytest.raises(BadData, match="were rejected") as no:
        staged(here)
    assert no.value.values == f"150 records, first {drill.topic}-2 offset 59: not JSON: JSONDecodeError"
    assert (drill.ask(BEHIND), drill.ask(COUNTED)) == ([(150, 150)], [(0, 0)])
    assert drill.violations() == []


def test_an_abandoned_batch_is_hidden_until_its_rows_are_gone(once, drill):
    here = once()
    attempt = staged(here)
    decisions.abandon(here.at.conn, attempt.batch_id, ME)
    assert (drill.ask(BEHIND), drill.ask(COUNTED)) == ([(150, 150)], [(0, 0)])
    assert reap(here.at.conn).dropped[-1] == f"rows of batch {attempt.batch_id} in public.drill_rows"
    assert (drill.ask(BEHIND), drill.ask(HIDDEN)) == ([(0, 0)], [])
    here.drain()
    held(drill)


@pytest.mark.parametrize("then", ["", f"create trigger same before update {SAME}"], ids=["written once", "staged"])
def test_offsets_of_an_abandoned_batch_are_read_again_before_reap_comes(once, drill, then):
    here = once()
    abandoned = staged(here)
    decisions.abandon(here.at.conn, abandoned.batch_id, ME)
    drill.ask(f"{then}; select 1")
    try:
        here.drain()
    except BadData as refused:
        pytest.fail(str(refused))
    assert drill.ask(BEHIND) == drill.ask(COUNTED) == [(150, 150)]
    assert reap(here.at.conn).dropped[-1] == f"rows of batch {abandoned.batch_id} in public.drill_rows"
    held(drill)


def test_a_replay_goes_its_own_way_and_replaces_what_was_copied(once, drill):
    here = once()
    here.drain()
    here.code = lambda value: value | {"n": value["n"] * 2}
    shown = here.preview("replay", "0:5", "0:15")
    assert "changed" in str(shown)
    here.replay("0:5", "0:15")
    assert "rows are staged for public.drill_rows: a replay" in drill.ask(ROUTE)[0][0]
    replaced = "select bool_and(n = 2 * substr(id, 2)::int), count(*) > 9 from public.drill where _batch > 1"
    assert drill.ask(replaced) == [(True, True)]
    held(drill)
    assert [
        check for check in verify(here.at.conn, here.at.broker, here.folder_as_run, deep=False) if not check.ok
    ] == []


def test_a_fill_is_written_once_as_well(once, drill):
    here = once()
    here.run()  # opens the streams
    here.skip()
    here.fill()
    held(drill)


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ({"text": "varchar(20)"}, "a column needs a cast"),
        ({"then": f"create trigger same before update {SAME};"}, "the table has triggers"),
    ],
    ids=["another type", "a trigger"],
)  # fmt: skip
def test_a_table_that_copies_cannot_fill_is_filled_by_the_commit(once, drill, shape, why):
    here = once(**shape)
    attempt = staged(here)
    assert drill.ask(BEHIND) == [(0, 0)]
    commit(here.at, here.folder, attempt)
    assert why in drill.ask(ROUTE)[0][0]
    held(drill)


def test_the_next_attempt_may_go_the_other_way(once, drill):
    here = once()
    staged(here)
    drill.ask(f"create trigger same before update {SAME}; select 1")
    commit(here.at, here.folder, staged(here))
    assert "the table has triggers" in drill.ask(ROUTE)[0][0]
    held(drill)


def test_readers_read_the_view_and_nobody_the_table_behind_it(once, drill):
    here = once()
    here.drain()
    for role in OF_A_RUN:
        with transaction(here.at.conn, None) as cur:
            cur.execute(
                "select has_table_privilege(%(r)s, 'public.drill', 'select') as shown, "
                "has_table_privilege(%(r)s, 'public.drill_rows', 'select') as behind",
                {"r": role},
            )
            assert cur.fetchone() == (role != "lockstep_partition", role == "lockstep_partition"), role
    drill.ask("grant select on public.drill_rows to public; select 1")
    with pytest.raises(Refusal, match=r"public may read public\.drill_rows, where rows stand that are not committed"):
        migrate_target(here.at.conn, here.folder)
    with transaction(here.at.conn, None) as cur:
        found = target_findings("drill", target_facts(cur, here.folder.pipeline))
    assert [finding.found for finding in found if finding] == ["readable by public"]


def test_a_table_of_today_moves_behind_a_view(drill, produce):
    here = Here(drill)
    here.drain()
    moved = "alter table public.drill rename to drill_rows;"
    with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set role lockstep_targets; " + moved)
    (drill.home / "drill" / "target.sql").write_text(TARGET.format(text="text", more=""))
    migrate_target(here.at.conn, here.folder)
    held(drill)
    produce(drill.topic, [("k", '{"id": "r150", "n": 150}')])
    here.drain()
    assert drill.ask("select count(*), count(distinct id) from public.drill") == [(151, 151)]
    assert "written once" in drill.ask(ROUTE)[0][0]
    assert all(check.ok for check in verify(here.at.conn, here.at.broker, here.folder, deep=True))
    here.at.close()


def test_a_new_column_comes_into_the_view(once, drill, produce):
    here = once()
    here.drain()
    here.rewrite("id string, n int", "id string, n int, more string")
    pipeline = here.folder.pipeline
    proposed = evolve.propose(here.at.conn, pipeline, [pipeline.columns])
    assert [change.statement for change in proposed.changes] == [
        'alter table "public"."drill_rows" add column if not exists "more" text'
    ]
    evolve.apply(here.at.conn, pipeline, [pipeline.columns], proposed.digest, ME)
    produce(drill.topic, [("k", '{"id": "r150", "n": 150, "more": "new"}')])
    here.drain()
    assert drill.ask("select id, more from public.drill where more is not null") == [("r150", "new")]
    assert drill.violations() == []


def test_no_other_pipeline_writes_the_table_behind_a_view(once, drill):
    here = once()
    (drill.home / "drill" / "__init__.py").rename(drill.home / "drill" / "was")
    other = drill.home / "other"
    other.mkdir()
    text = (drill.home / "drill" / "was").read_text()
    (other / "__init__.py").write_text(text.replace('"drill"', '"other"').replace("public.drill", "public.drill_rows"))
    (other / "target.sql").write_text("select 1")
    with pytest.raises(psycopg2.errors.CheckViolation, match="owned_through_view"):
        migrate_target(here.at.conn, load("other"))
