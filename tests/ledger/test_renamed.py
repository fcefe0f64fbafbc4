"""A pipeline takes another name with all of its history, and nothing commits, plans or begins under the old one."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import PLANNER, READER, connect, transaction
from lockstep.core.changes.person import Person
from lockstep.core.errors import Refusal
from lockstep.core.planning.bounds import parse_bound
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.ledger.batch.plan import lock_pipeline
from lockstep.ledger.changes import forgotten
from lockstep.ledger.proof.chain import chain_check
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.run import run, until_idle
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.changes.decisions import abandon, pause
from lockstep.steps.changes.hand_over import hand_over
from lockstep.steps.changes.rename import rename
from lockstep.steps.proof.verify import verify
from lockstep.steps.requests import requests
from support.fakes.plain_engine import PlainEngine
from support.scenes.here import ME, Here

ANN = Person("ann", "a better name")
VALUES = "select count(*), count(distinct id), sum(n) from public.drill"
ONCE = (150, 150, sum(range(150)))
LATER = '{"id": "later", "n": 1000}'
BEARERS = """select c.conrelid::regclass::text, a.attname from pg_constraint c join pg_attribute a on a.attrelid = c.conrelid
    and a.attnum = c.conkey[1] where c.contype = 'f' and c.confrelid in ('lockstep.pipeline'::regclass,
    'lockstep.complete_hour'::regclass, 'lockstep.hour_told'::regclass, 'lockstep.erasure_salt'::regclass) order by 1"""


@pytest.fixture
def here(drill):
    made = Here(drill)
    yield made
    made.at.close()


def moved(here: Here, name: str, old: str = "drill") -> Any:
    """Renames the folder, as a user does first."""
    folder = (here.drill.home / old).rename(here.drill.home / name)
    file = folder / "__init__.py"
    file.write_text(file.read_text().replace(f'name="{old}"', f'name="{name}"'))
    return load(name)


def renamed(here: Here, name: str, old: str = "drill") -> Any:
    folder = moved(here, name, old)
    assert rename(here.at.conn, old, folder.pipeline, ANN) is True
    return folder


def drain(here: Here, folder) -> None:
    engine = PlainEngine(folder, here.drill.kafka, here.drill.dsn)
    while run(here.at, engine, folder, Caller("me")).went_on:
        pass


def broken(here: Here, folder, *, deep: bool = True) -> list[str]:
    return [f"{c.name}: {c.detail}" for c in verify(here.at.conn, here.at.broker, folder, deep=deep) if not c.ok]


def test_all_of_the_history_comes_along_and_the_next_batch_goes_on_behind_it(here, produce):
    here.drain()
    positions = here.drill.ask("select partition, position, stream_id from lockstep.stream order by 1")

    folder = renamed(here, "shop")

    for table, column in here.drill.ask(BEARERS):
        names = here.drill.ask(f"select distinct {column} from {table}")
        assert names in ([], [("shop",)]), table
    assert here.drill.ask("select partition, position, stream_id from lockstep.stream order by 1") == positions
    assert here.drill.ask("select kind, who, why, detail, pipeline from lockstep.decision") == [
        ("rename", "ann", "a better name", {"from": "drill", "to": "shop"}, "shop")
    ]
    assert here.drill.ask("select target, pipeline from lockstep.target_owner") == [("public.drill", "shop")]
    produce(here.drill.topic, [("k", LATER)])
    drain(here, folder)
    assert here.drill.ask(VALUES) == [(151, 151, sum(range(150)) + 1000)]
    assert broken(here, folder) == []


def test_old_links_keep_the_old_name_and_the_rename_is_a_link(here, produce):
    here.drain()
    before = here.drill.ask("select number, digest from lockstep.link order by 1")
    here.ask("replay", preview=True)
    pause(here.at.conn, "drill", ME)  # waits for its link when the name changes

    folder = renamed(here, "shop")
    produce(here.drill.topic, [("k", LATER)])
    with transaction(here.at.conn, "lockstep_owner") as cur:
        cur.execute("update lockstep.pipeline set paused = false")
    drain(here, folder)

    links = here.drill.ask("select number, digest from lockstep.link order by 1")
    assert links[: len(before)] == before
    with transaction(here.at.conn, READER) as cur:
        assert chain_check(cur, "shop").ok
    told = here.drill.ask(
        "select l.number, coalesce(c.record, d.record, q.record)::jsonb ->> 'record',"
        " coalesce(c.record, d.record, q.record)::jsonb ->> 'pipeline'"
        " from lockstep.link l left join lockstep.committed_record c using (batch_id, stream_id)"
        " left join lockstep.decided_record d using (decision_id)"
        " left join lockstep.requested_record q using (request_id) where l.ledger_id is null order by 1"
    )
    assert [row[1:] for row in told] == [
        *[("commit", "drill")] * 3,
        ("request", "drill"),
        ("decision", "drill"),
        ("decision", "shop"),
        ("commit", "shop"),
    ]


def test_a_chain_of_names_leads_to_the_last_one_and_back(here, produce):
    here.drain()
    second = renamed(here, "shop")
    produce(here.drill.topic, [("k", LATER)])
    drain(here, second)
    third = renamed(here, "store", "shop")
    assert broken(here, third) == []
    for old in ("drill", "shop"):
        with pytest.raises(Refusal, match=f"{old} was renamed to store by ann"):
            pause(here.at.conn, old, ME)

    back = renamed(here, "drill", "store")

    assert broken(here, back) == []
    produce(here.drill.topic, [("k", '{"id": "last", "n": 1}')])
    drain(here, back)
    assert here.drill.ask(VALUES) == [(152, 152, sum(range(150)) + 1001)]
    assert broken(here, back) == []
    assert here.drill.ask("select name from lockstep.pipeline") == [("drill",)]
    records = "select distinct record::jsonb ->> 'pipeline', batch_id from lockstep.committed_record order by 2"
    assert here.drill.ask(records) == [("drill", 1), ("shop", 2), ("drill", 3)]


def test_a_replay_under_the_new_name_takes_out_what_the_old_one_wrote(here):
    here.drain()
    folder = renamed(here, "shop")
    wanted = requests.NewRequest(Lane.REPLAY, parse_bound("0:0", "--from"), None)
    asked = requests.open_request(here.at.conn, here.at.broker, folder, wanted, ME, here_now(here))
    engine = PlainEngine(folder, here.drill.kafka, here.drill.dsn)
    list(until_idle(here.at, engine, folder, Caller("me"), 1, request_id=asked.request_id))
    assert here.drill.ask("select distinct lane, pipeline from lockstep.batch order by 1") == [
        ("live", "shop"),
        ("replay", "shop"),
    ]
    assert here.drill.ask(VALUES) == [ONCE]
    assert broken(here, folder) == []


def here_now(here: Here):
    return here.drill.ask("select clock_timestamp()")[0][0]


def test_closed_streams_requests_and_hand_overs_come_along(here):
    here.drain()
    here.replay("0:0", "0:5")
    here.drill.ask(
        "set role lockstep_owner; update lockstep.stream set retired_at = now() where partition = 2 returning 1"
    )
    folder = renamed(here, "shop")
    other = copy_of(here, "shop", "other")
    hand_over(here.at.conn, "public.drill", "shop", other.pipeline, ME)

    third = renamed(here, "store", "shop")

    assert here.drill.ask("select lockstep.line_of('other')") == [(["other", "store"],)]
    owned = [c for c in verify(here.at.conn, here.at.broker, third, deep=False) if c.name.startswith("no other")]
    assert [(c.ok, c.detail) for c in owned] == [(True, "public.drill was handed over to other")]
    assert folder.pipeline.name == "shop"


def copy_of(here: Here, source: str, name: str):
    folder = here.drill.home / name
    folder.mkdir()
    for file in ("__init__.py", "target.sql"):
        (folder / file).write_text((here.drill.home / source / file).read_text().replace(f'"{source}"', f'"{name}"'))
    return load(name)


def test_an_attempt_under_the_old_name_can_never_commit_afterwards(here):
    """Staged and validated, then abandoned so that the rename may be: its commit is refused, and nothing is written."""
    who, folder = Caller("me"), here.folder
    batch_id = plan(here.at.conn, here.at.broker, folder, who, here_now(here)).batch_id
    attempt = stage(here.at, PlainEngine(folder, here.drill.kafka, here.drill.dsn), folder, batch_id, who)
    validate(here.at, folder, attempt)
    shop = moved(here, "shop")
    with pytest.raises(Refusal, match=f"drill: batch {batch_id} is unfinished"):
        rename(here.at.conn, "drill", shop.pipeline, ANN)
    abandon(here.at.conn, batch_id, ME)
    assert rename(here.at.conn, "drill", shop.pipeline, ANN) is True

    with pytest.raises(Refusal):
        commit(here.at, folder, attempt)

    assert here.drill.ask("select count(*) from lockstep.commit") == [(0,)]
    drain(here, shop)
    assert here.drill.ask(VALUES) == [ONCE]


def test_the_old_name_is_refused_with_the_new_one_and_writes_no_row(here):
    here.drain()
    old = here.folder
    renamed(here, "shop")
    engine = PlainEngine(old, here.drill.kafka, here.drill.dsn)
    for act in (
        lambda: run(here.at, engine, old, Caller("me")),
        lambda: pause(here.at.conn, "drill", ME),
    ):
        with pytest.raises(Refusal, match=r"drill was renamed to shop by ann at .*: a better name") as refusal:
            act()
        assert refusal.value.next_command == "lockstep run shop"
    assert here.drill.ask("select name from lockstep.pipeline") == [("shop",)]


def test_a_plan_that_waits_behind_the_rename_is_told_the_new_name(here):
    here.drain()
    told: list[BaseException] = []

    def waits() -> None:
        with closing(connect(here.drill.dsn)) as conn:
            try:
                pause(conn, "drill", ME)
            except Refusal as refusal:
                told.append(refusal)

    with transaction(here.at.conn, PLANNER) as cur:
        lock_pipeline(cur, "drill")
        forgotten.rename_in_ledger(cur, "drill", "shop", ANN)
        behind = threading.Thread(target=waits)
        behind.start()
        behind.join(0.5)
        assert not told
    behind.join(20)
    assert "drill was renamed to shop by ann" in str(told[0])


def test_the_database_lets_no_pipeline_be_born_under_the_old_name_behind_a_rename(here):
    """With the code's look out of play: the insert waits for the rename, and would then find the name free."""
    here.drain()
    told: list[str | None] = []
    born = "insert into lockstep.pipeline (name) values ('drill') on conflict do nothing"

    def waits() -> None:
        with closing(connect(here.drill.dsn)) as conn:
            try:
                with transaction(conn, PLANNER) as cur:
                    cur.execute(born)
            except psycopg2.Error as error:
                told.append(error.diag.constraint_name)

    with transaction(here.at.conn, PLANNER) as cur:
        forgotten.rename_in_ledger(cur, "drill", "shop", ANN)
        behind = threading.Thread(target=waits)
        behind.start()
        behind.join(0.5)
    behind.join(20)
    assert told == ["former_name_rests"]
    assert here.drill.ask("select name from lockstep.pipeline") == [("shop",)]


CALL = "select lockstep.rename_pipeline('drill', 'shop', 'raw', 'raw', '{}')"
BATCH = "insert into lockstep.batch (pipeline, lane, owner, lease_until) values ('drill', 'live', 'raw', now())"


def refused(here: Here, *statements: str) -> str | None:
    """The name of the constraint that refuses a planner's last statement."""
    with pytest.raises(psycopg2.Error) as error, transaction(here.at.conn, PLANNER) as cur:
        cur.execute(";".join(statements))
    return error.value.diag.constraint_name or type(error.value).__name__


def test_the_database_renames_no_pipeline_with_a_batch_under_way_or_a_shared_table(here):
    here.drain()
    assert refused(here, BATCH, CALL) == "renamed_is_idle"
    share = "update lockstep.target_owner set shared_with = '{other}'"
    assert refused(here, share, CALL) == "renamed_is_idle"
    assert here.drill.ask("select name from lockstep.pipeline") == [("drill",)]


def test_the_database_gives_a_former_name_to_no_other_pipeline(here):
    here.drain()
    renamed(here, "shop")
    assert refused(here, "insert into lockstep.pipeline (name) values ('drill')") == "former_name_rests"
    with transaction(here.at.conn, PLANNER) as cur:
        lock_pipeline(cur, "other")
    back = "select lockstep.rename_pipeline('other', 'drill', 'raw', 'raw', '{}')"
    assert refused(here, back) == "former_name_rests"


@pytest.mark.parametrize(
    "statement",
    [
        "update lockstep.pipeline set name = 'shop'",
        "update lockstep.batch set pipeline = 'shop'",
        "update lockstep.stream set pipeline = 'shop'",
        "insert into lockstep.renaming values (1, 'drill', 'x', 0)",
        "delete from lockstep.renaming",
    ],
)
def test_no_role_writes_a_name_by_itself(here, statement):
    here.drain()
    assert refused(here, statement) == "InsufficientPrivilege"


@pytest.mark.parametrize(
    ("statement", "guard"),
    [
        ("update lockstep.batch set pipeline = 'shop', owner = 'x'", "closed_once"),
        ("update lockstep.stream set pipeline = 'shop', epoch = 7", "closed_once"),
        ("update lockstep.request set pipeline = 'shop', why = 'x'", "closed_once"),
    ],
    ids=["batch", "stream", "request"],
)
def test_closed_rows_change_with_a_name_in_nothing_else(here, statement, guard):
    here.drain()
    here.replay("0:0", "0:5")
    with pytest.raises(psycopg2.Error) as error, transaction(here.at.conn, None) as cur:
        cur.execute(f"set local role lockstep_owner; insert into lockstep.pipeline (name) values ('shop'); {statement}")
    assert error.value.diag.constraint_name == guard
