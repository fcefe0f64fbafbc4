"""Tests that a table has one owner: by constraint, at migrate and at plan.

A shared table is shared only if all its definitions say so.
"""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import psycopg2
import pytest
from psycopg2 import errors

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import COMMITTER, PLANNER, connect, transaction
from lockstep.core.errors import BadData, LockTimeout, Refusal
from lockstep.core.planning.bounds import parse_bound
from lockstep.core.planning.decisions import Blocked, Caller, Start
from lockstep.core.states import Lane
from lockstep.ledger.changes import owners
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.run import run, until_idle
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.changes import decisions
from lockstep.steps.changes.forget import forget, remember
from lockstep.steps.changes.hand_over import hand_over
from lockstep.steps.inspect.holes import holes
from lockstep.steps.proof.verify import verify
from lockstep.steps.requests.requests import NewRequest, open_request
from support.fakes.ledger_rows import LedgerRows
from support.fakes.plain_engine import PlainEngine
from support.scenes.here import ME, Here

TABLE = "public.drill"
OWNED = "no other pipeline writes the table"
VALUES = "select count(*), count(distinct id), sum(n) from public.drill"
ONCE = (150, 150, sum(range(150)))


class Two(Here):
    """The drill's pipeline, and copies of its folder under other names."""

    def copy(self, name: str, **changes: str) -> None:
        source, folder = self.drill.home / "drill", self.drill.home / name
        folder.mkdir()
        for file in ("__init__.py", "target.sql"):
            text = (source / file).read_text().replace('name="drill"', f'name="{name}"')
            for old, new in changes.items():
                text = text.replace(old, new)
            (folder / file).write_text(text)

    def upserts(self, name: str, *shared: str, order_by: str = "") -> None:
        """Gives a pipeline an upserted target that it shares with these others."""
        file = self.drill.home / name / "__init__.py"
        text = file.read_text().replace("import Append, Json", "import Json, Upsert")
        head, _, rest = text.partition("target=")
        ranked = f", order_by={order_by!r}" if order_by else ""
        target = f'target=Upsert("public.drill", key=("id",), shared_with={shared!r}{ranked}),\n'
        file.write_text(head + target + rest.partition("\n")[2])
        (self.drill.home / name / "target.sql").write_text(KEYED)

    def migrate(self, name: str) -> None:
        with closing(connect(self.drill.dsn)) as conn:
            migrate_target(conn, load(name))

    def plans(self, name: str):
        return plan(self.at.conn, self.at.broker, load(name), Caller("me"), datetime.now(UTC)).decision

    def staged(self, name: str):
        """Does everything but the commit."""
        who, folder = Caller("me"), load(name)
        batch_id = plan(self.at.conn, self.at.broker, folder, who, datetime.now(UTC)).batch_id
        attempt = stage(self.at, PlainEngine(folder, self.drill.kafka, self.drill.dsn), folder, batch_id, who)
        validate(self.at, folder, attempt)
        return attempt

    def drains(self, name: str) -> None:
        folder = load(name)
        engine = PlainEngine(folder, self.drill.kafka, self.drill.dsn)
        while run(self.at, engine, folder, Caller("me")).went_on:
            pass

    def fills(self, name: str, begin: str | None) -> None:
        """Asks for a fill, as the command line does, and does it."""
        folder, bound = load(name), parse_bound(begin, "--from") if begin else None
        wanted = NewRequest(Lane.FILL, bound, None)
        asked = open_request(self.at.conn, self.at.broker, folder, wanted, ME, datetime.now(UTC))
        if asked is not None:
            engine = PlainEngine(folder, self.drill.kafka, self.drill.dsn)
            list(until_idle(self.at, engine, folder, Caller("me"), 1, request_id=asked.request_id))

    def hands_over(self, giver: str, receiver: str):
        return hand_over(self.at.conn, TABLE, giver, load(receiver).pipeline, ME)

    def owners(self) -> list[tuple]:
        return self.drill.ask("select target, pipeline, shared_with from lockstep.target_owner order by 1, 2")

    def verified(self, name: str) -> dict[str, tuple[bool, str]]:
        checks = verify(self.at.conn, self.at.broker, load(name), deep=True)
        return {check.name: (check.ok, check.detail) for check in checks}

    def forgets(self) -> None:
        """Leaves the ledger as it was before owners were recorded."""
        self.drill.ask("set role lockstep_owner; delete from lockstep.target_owner returning 1")


KEYED = """create table if not exists public.drill (id text primary key, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null);
"""


@pytest.fixture
def two(drill):
    here = Two(drill)
    yield here
    here.at.close()


def test_a_second_pipeline_on_an_appended_table_is_refused_at_migrate_and_at_plan(two):
    two.drains("drill")
    two.copy("copied")

    with pytest.raises(Refusal, match=r"copied: public\.drill belongs to drill") as refused:
        two.migrate("copied")
    found = two.plans("copied")

    assert "lockstep hand-over public.drill --from drill --to copied --reason ..." in refused.value.next_command
    assert isinstance(found, Blocked)
    assert found.reason == "copied: public.drill belongs to drill"
    assert two.drill.ask(VALUES) == [ONCE]
    assert two.drill.ask("select count(*) from lockstep.batch where pipeline = 'copied'") == [(0,)]
    assert two.verified("drill")[OWNED] == (True, "owned by drill")


def test_one_who_plans_a_table_of_another_pipeline_is_answered_blocked(two):
    two.copy("copied")
    assert isinstance(two.plans("copied"), Blocked)


def test_a_replay_of_a_pipeline_that_owns_nothing_is_refused_too(two):
    two.drains("drill")
    two.copy("copied")
    two.hands_over("drill", "copied")

    reports = two.replay("0:0")

    assert isinstance(reports[-1].decision, Blocked)
    assert "public.drill belongs to copied" in reports[-1].decision.reason


def test_the_new_owner_goes_on_where_the_old_one_stopped_and_no_record_comes_twice(two, produce):
    two.drains("drill")
    before = two.drill.ask("select partition, position from lockstep.stream order by 1")
    two.copy("renamed")

    done = two.hands_over("drill", "renamed")

    assert sorted(done.positions.items()) == before
    assert two.owners() == [(TABLE, "renamed", [])]
    two.migrate("renamed")
    produce(two.drill.topic, [("k", '{"id": "later", "n": 1000}')])
    two.drains("renamed")
    assert two.drill.ask(VALUES) == [(151, 151, sum(range(150)) + 1000)]
    assert [ok for ok, _ in two.verified("renamed").values()] == [True] * len(two.verified("renamed"))
    assert two.verified("drill")[OWNED] == (True, "public.drill was handed over to renamed")
    assert isinstance(two.plans("drill"), Blocked)
    recorded = two.drill.ask(
        "select pipeline, who, why, detail ->> 'from', detail ->> 'to' from lockstep.decision"
        " where kind = 'hand-over' order by 1"
    )
    assert recorded == [(name, ME.who, ME.why, "drill", "renamed") for name in ("drill", "renamed")]


def test_a_fill_of_the_new_owner_reads_nothing_that_the_old_one_has_read(two, produce):
    two.drains("drill")
    two.copy("renamed")
    two.hands_over("drill", "renamed")
    two.migrate("renamed")
    produce(two.drill.topic, [("k", '{"id": "later", "n": 1000}')])
    two.drains("renamed")

    for begin in (None, "0:0", "2000-01-01T00:00"):
        two.fills("renamed", begin)

    assert two.drill.ask(VALUES) == [(151, 151, sum(range(150)) + 1000)]
    assert holes(two.at.conn, two.at.broker, load("renamed").pipeline) == []


def test_the_database_lets_nobody_claim_what_the_old_owner_has_read(two):
    two.drains("drill")
    two.copy("renamed")
    done = two.hands_over("drill", "renamed")
    two.migrate("renamed")
    ((stream, start),) = two.drill.ask(
        "select stream_id, start_offset from lockstep.stream where pipeline = 'renamed' and partition = 0"
    )
    assert start == done.positions[0] > 0
    rows = LedgerRows(two.at.conn)
    rows.pipeline = "renamed"

    with pytest.raises(errors.CheckViolation, match=rf"one_log: .* begins before its start {start}: .* a former owner"):
        rows.planned({stream: (start - 1, start + 1)}, lane="fill")


def test_a_table_that_is_handed_back_is_read_on_where_the_other_owner_stopped(two, produce):
    two.drains("drill")
    two.copy("renamed")
    two.hands_over("drill", "renamed")
    two.migrate("renamed")
    produce(two.drill.topic, [("k", '{"id": "later", "n": 1000}')])
    two.drains("renamed")
    stopped = two.drill.ask("select partition, position from lockstep.stream where pipeline = 'renamed' order by 1")

    back = two.hands_over("renamed", "drill")

    assert sorted(back.positions.items()) == stopped
    produce(two.drill.topic, [("k", '{"id": "last", "n": 2000}')])
    two.drains("drill")
    two.fills("drill", None)
    assert two.drill.ask(VALUES) == [(152, 152, sum(range(150)) + 3000)]
    for name in ("drill", "renamed"):
        assert [check for check, (ok, _) in two.verified(name).items() if not ok] == []
    assert holes(two.at.conn, two.at.broker, load("drill").pipeline) == []


def test_a_former_owner_that_has_read_further_keeps_its_positions(two, produce):
    """Its successor was behind, as one that began anew after the table was free."""
    two.drains("drill")
    two.copy("renamed")
    forget(two.at.conn, "drill", ME)
    two.migrate("renamed")
    limits = two.drill.home / "renamed" / "__init__.py"
    limits.write_text(limits.read_text().replace("records=200", "records=30"))
    run(two.at, PlainEngine(load("renamed"), two.drill.kafka, two.drill.dsn), load("renamed"), Caller("me"))
    remember(two.at.conn, "drill", ME)

    assert two.hands_over("renamed", "drill").positions == {}

    produce(two.drill.topic, [("k", '{"id": "last", "n": 2000}')])
    two.drains("drill")
    assert two.drill.ask("select count(*), count(distinct id) from public.drill") == [(181, 151)]


@pytest.fixture
def contested(two, monkeypatch, produce):
    """Makes a ledger from before owners were recorded, in which two pipelines have written one table."""
    two.forgets()
    monkeypatch.setattr(owners, "own", lambda *_: None)
    two.drains("drill")
    two.copy("copied")
    two.migrate("copied")
    two.drains("copied")
    monkeypatch.undo()
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(two.drill.home))
    assert two.drill.ask(VALUES) == [(300, 150, 2 * sum(range(150)))]
    produce(two.drill.topic, [("k", '{"id": "later", "n": 1000}')])
    return two


def test_a_table_that_two_pipelines_have_written_is_told_and_neither_is_chosen(contested):
    for name, other in (("drill", "copied"), ("copied", "drill")):
        said = f"public.drill was written by {other} and by {name}, and no owner is recorded"
        assert contested.verified(name)[OWNED] == (False, said)
        found = contested.plans(name)
        assert isinstance(found, Blocked)
        assert found.reason == f"{name}: {said}"
        assert f"lockstep hand-over public.drill --from {other} --to {name} --reason ..." in found.next_command
    assert contested.owners() == []

    contested.hands_over("copied", "drill")

    assert contested.owners() == [(TABLE, "drill", [])]
    assert isinstance(contested.plans("drill"), Start)
    assert isinstance(contested.plans("copied"), Blocked)


def test_a_pipeline_of_an_older_ledger_becomes_the_owner_of_what_it_alone_has_written(two, produce):
    two.drains("drill")
    two.forgets()
    two.copy("copied")
    with pytest.raises(Refusal, match=r"copied: public\.drill was written by drill, and no owner is recorded"):
        two.migrate("copied")

    produce(two.drill.topic, [("k", '{"id": "later", "n": 1000}')])
    two.drains("drill")

    assert two.owners() == [(TABLE, "drill", [])]


def test_two_pipelines_that_name_each_other_share_an_upserted_table(two, topic, produce):
    two.drill.ask("drop table public.drill; select 1")
    eu = topic(partitions=1)
    two.copy("eu", **{two.drill.topic: eu})
    two.upserts("drill", "eu")
    two.upserts("eu", "drill")
    two.forgets()
    two.migrate("drill")
    two.migrate("eu")
    produce(eu, [("k", f'{{"id": "eu{n}", "n": {n}}}') for n in range(7)])

    two.drains("drill")
    two.drains("eu")

    assert two.owners() == [(TABLE, "drill", ["eu"]), (TABLE, "eu", ["drill"])]
    assert two.drill.ask(VALUES) == [(157, 157, sum(range(150)) + sum(range(7)))]
    assert two.verified("drill")[OWNED] == (True, "owned by drill, eu")

    produce(eu, [("k", '{"id": "r3", "n": 77}')])  # a key of the other topic: nothing says which record is newer
    with pytest.raises(BadData, match="a key stands in two topics") as no:
        two.drains("eu")
    assert no.value.values == "the key is ['r3']"
    assert two.drill.ask("select n from public.drill where id = 'r3'") == [(3,)]


def test_deep_of_a_shared_table_names_the_missing_rows_of_its_own_records_alone(two, topic, produce):
    two.drill.ask("drop table public.drill; select 1")
    eu = topic(partitions=1)
    two.copy("eu", **{two.drill.topic: eu, 'Json("id string, n int")': 'Json("id string, n int", key="id")'})
    two.upserts("drill", "eu")
    two.upserts("eu", "drill")
    two.forgets()
    two.migrate("drill")
    two.migrate("eu")
    produce(eu, [(f"eu{n}", f'{{"id": "eu{n}", "n": {n}}}') for n in range(7)])
    two.drains("drill")
    two.drains("eu")
    produce(eu, [("eu3", None), ("nowhere", None)])
    two.drains("eu")
    assert two.drill.ask("select count(*) from lockstep.tombstone") == [(2,)]
    for name in ("drill", "eu"):
        assert [check for check, (ok, _) in two.verified(name).items() if not ok] == []

    two.drill.ask("delete from public.drill where id = 'eu5' returning 1")

    newest = "each key's newest record is its row"
    assert two.verified("drill")[newest][0]
    found, detail = two.verified("eu")[newest]
    assert not found
    assert detail.startswith('key ["eu5"]: its newest record is stream ')
    assert detail.endswith("offset 5, and its row is missing")

    two.drill.ask("delete from public.drill where id = 'r7' returning 1")

    assert 'key ["r7"]: its newest record is stream ' in two.verified("drill")[newest][1]
    assert "r7" not in two.verified("eu")[newest][1]


def test_with_order_by_the_higher_value_wins_whichever_topic_it_came_from(two, topic, produce):
    two.drill.ask("drop table public.drill; select 1")
    eu = topic(partitions=1)
    two.copy("eu", **{two.drill.topic: eu})
    two.upserts("drill", "eu", order_by="n")
    two.upserts("eu", "drill", order_by="n")
    two.forgets()
    two.migrate("drill")
    two.migrate("eu")
    produce(eu, [("k", '{"id": "r3", "n": 1}'), ("k", '{"id": "r4", "n": 99}')])

    two.drains("drill")
    two.drains("eu")

    assert two.drill.ask("select id, n from public.drill where id in ('r3', 'r4') order by 1") == [
        ("r3", 3),
        ("r4", 99),
    ]


def test_one_sided_sharing_is_refused_by_the_name_of_who_does_not_say_so(two):
    two.drill.ask("drop table public.drill; select 1")
    two.copy("eu")
    two.upserts("drill")
    two.upserts("eu", "drill")
    two.migrate("drill")

    with pytest.raises(
        Refusal, match=r"public\.drill belongs to drill, whose definition does not name eu in shared_with"
    ):
        two.migrate("eu")

    two.upserts("drill", "eu")
    assert isinstance(two.plans("drill"), Start)  # the other definition says it, too
    two.migrate("eu")
    two.upserts("drill")
    assert "public.drill belongs to eu" in two.plans("drill").reason


def test_the_records_of_a_new_owner_are_newer_than_the_rows_of_the_old_one(two, topic, produce):
    two.drill.ask("drop table public.drill; select 1")
    two.upserts("drill")
    two.migrate("drill")
    two.drains("drill")
    other = topic(partitions=1)
    two.copy("renamed", **{two.drill.topic: other})
    two.hands_over("drill", "renamed")
    two.migrate("renamed")
    produce(other, [("k", '{"id": "r149", "n": 77}')])  # at offset 0, and the old row's is a higher one

    two.drains("renamed")

    assert two.drill.ask("select id, n from public.drill where id in ('r149', 'r4') order by 1") == [
        ("r149", 77),
        ("r4", 4),
    ]


def test_a_commit_into_a_table_that_was_given_away_meanwhile_is_refused_by_the_database(two):
    attempt = two.staged("drill")
    # not by hand-over, which refuses while a batch is unfinished
    with transaction(two.at.conn, "lockstep_owner") as cur:
        cur.execute("insert into lockstep.pipeline (name) values ('copied')")
        cur.execute("delete from lockstep.target_owner")
        cur.execute("insert into lockstep.target_owner values ('', 'public.drill', 'copied')")

    with pytest.raises(psycopg2.DatabaseError, match="commit_by_owner"):
        commit(two.at, load("drill"), attempt)

    assert two.drill.ask(VALUES) == [(0, 0, None)]


def test_a_table_is_not_handed_over_while_a_batch_would_write_it(two):
    attempt = two.staged("drill")
    two.copy("copied")

    with pytest.raises(Refusal, match=f"batch {attempt.batch_id} is unfinished") as refused:
        two.hands_over("drill", "copied")

    assert f"lockstep abandon {attempt.batch_id} --reason ..." in refused.value.next_command
    decisions.abandon(two.at.conn, attempt.batch_id, ME)
    two.hands_over("drill", "copied")
    assert two.owners() == [(TABLE, "copied", [])]


def test_a_share_of_a_table_is_handed_over_to_nobody_but_those_who_share_it(two, topic):
    two.drill.ask("drop table public.drill; select 1")
    eu = topic(partitions=1)
    two.copy("eu", **{two.drill.topic: eu})
    two.copy("third")
    two.upserts("drill", "eu")
    two.upserts("eu", "drill")
    two.forgets()
    two.migrate("drill")
    two.migrate("eu")
    before = two.owners()

    with pytest.raises(Refusal, match="drill shares it with eu, which third is not one of") as refused:
        two.hands_over("drill", "third")

    assert refused.value.next_command == "lockstep hand-over public.drill --from drill --to eu --reason ..."
    assert two.owners() == before
    assert two.drill.ask("select 1 from lockstep.decision") == []


@pytest.mark.parametrize("held", ["drill", "copied"])
def test_a_table_is_not_handed_over_while_a_plan_of_either_pipeline_is_under_way(two, monkeypatch, held):
    monkeypatch.setitem(transaction.__wrapped__.__kwdefaults__, "lock_seconds", 0.2)  # type: ignore[attr-defined]
    two.copy("copied")
    two.drill.ask("insert into lockstep.pipeline (name) values ('copied') returning 1")

    with closing(psycopg2.connect(two.drill.dsn)) as planner, planner.cursor() as cur:
        cur.execute("set local role lockstep_planner")
        cur.execute("select 1 from lockstep.pipeline where name = %s for no key update", (held,))
        with pytest.raises(LockTimeout, match="a plan or a commit is under way"):
            two.hands_over("drill", "copied")

    assert two.owners() == [(TABLE, "drill", [])]
    assert two.drill.ask("select 1 from lockstep.decision") == []


def test_one_who_shares_leaves_and_the_other_goes_on_alone(two, topic):
    two.drill.ask("drop table public.drill; select 1")
    eu = topic(partitions=1)
    two.copy("eu", **{two.drill.topic: eu})
    two.upserts("drill", "eu")
    two.upserts("eu", "drill")
    two.forgets()
    two.migrate("drill")
    two.migrate("eu")

    two.hands_over("eu", "drill")
    two.upserts("drill")
    two.drains("drill")

    assert two.owners() == [(TABLE, "drill", [])]
    assert two.verified("drill")[OWNED] == (True, "owned by drill")


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (["('', 'public.t', 'a')", "('', 'public.t', 'b')"], "owned_once"),
        (["('', 'public.t', 'a', '{b}')", "('', 'public.t', 'b')"], "owned_once"),
        (["('', 'public.t', 'a')", "('', 'public.t', 'b', '{a}')"], "owned_once"),
        (
            ["('', 'public.t', 'a', '{b,c}')", "('', 'public.t', 'b', '{a,c}')", "('', 'public.t', 'c', '{a}')"],
            "owned_once",
        ),
        (["('', 'public.t', 'a', '{a}')"], "shares_with_others"),
        (["('', 'Public.T', 'a')"], "target_is_qualified"),
        (["('', 't', 'a')"], "target_is_qualified"),
        (["('', 'public.t', 'nobody')"], "target_owner_pipeline_fkey"),
        (["('POLARIS', 'POLARIS.web.t', 'a')", "('WAREHOUSE', 'POLARIS.web.t', 'b')"], "target_is_qualified"),
    ],
)
def test_the_database_refuses_owners_that_do_not_agree(conn, rows, why):
    with transaction(conn, PLANNER) as cur:
        cur.execute("insert into lockstep.pipeline (name) values ('a'), ('b'), ('c')")
    with pytest.raises(psycopg2.IntegrityError) as refused:  # noqa: PT012 - each row but the last is allowed
        for row in rows:
            with transaction(conn, PLANNER) as cur:
                cur.execute(f"insert into lockstep.target_owner values {row}")
    assert refused.value.diag.constraint_name == why


def test_two_owners_are_refused_by_an_index_alone(conn):
    with closing(psycopg2.connect(conn.dsn, password=conn.info.password)) as owner, owner, owner.cursor() as cur:
        cur.execute("set role lockstep_owner; drop trigger owned_once on lockstep.target_owner")
    with transaction(conn, PLANNER) as cur:
        cur.execute("insert into lockstep.pipeline (name) values ('a'), ('b')")
        cur.execute("insert into lockstep.target_owner values ('', 'public.t', 'a'), ('WAREHOUSE', 'public.t', 'b')")
    with pytest.raises(psycopg2.IntegrityError, match="one_owner"), transaction(conn, PLANNER) as cur:
        cur.execute("insert into lockstep.target_owner values ('', 'public.t', 'b')")


def test_nobody_but_who_plans_changes_owners(conn):
    with pytest.raises(psycopg2.errors.InsufficientPrivilege), transaction(conn, COMMITTER) as cur:
        cur.execute("delete from lockstep.target_owner")
