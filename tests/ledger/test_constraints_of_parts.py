"""Tests that the database lets no part be filled, kept or attached by whom it does not belong to: raw SQL alone."""

from __future__ import annotations

import os
from contextlib import closing

import psycopg2
import pytest

from lockstep.adapters.postgres import OWNER, connect, transaction
from support.fakes.ledger_rows import LedgerRows, commit_in
from support.scenes.undone import roles_that_may, undone

TABLES = """create table public.t (n int check (n > 0), _stream int4 not null, _offset int8 not null, _ordinal int4 not null,
    _batch int8 not null, primary key (_stream, _offset, _ordinal, _batch)) partition by list (_batch);
    create index t_n on public.t (n desc);
    create table public.other (like public.t) partition by list (_batch);
    insert into lockstep.target_owner (store, target, pipeline) values ('', 'public.t', 'orders');
    insert into lockstep.shape (hash, target, columns) values ('h', 'public.t', '[]');"""


def make(s: str = "s", b: str = "b", t: str = "%(t)s", target: str = "t") -> str:
    return f"select lockstep.make_part('public.{target}', %({b})s, {t}, %({s})s); "


def filled(s: str = "s", n: int = 1) -> str:
    return (
        "do $$ begin execute format('insert into %%s values (" + f"{n}, %({s})s, 3, 0, %(b)s)', "
        f"(select relation::regclass from lockstep.part where stream_id = %({s})s)); end $$; "
    )


def close(s: str = "s") -> str:
    return f"select lockstep.close_part(%(b)s, %(t)s, %({s})s); "


def land(s: str = "s", rows: int = 1) -> str:
    return (
        "insert into lockstep.landed (batch_id, token, stream_id, offsets, rows, rows_digest, shape_id) "
        f"select %(b)s, %(t)s, %({s})s, r.offsets, {rows}, 0, (select min(shape_id) from lockstep.shape) "
        f"from lockstep.batch_range r where r.batch_id = %(b)s and r.stream_id = %({s})s; "
    )


def whole(s: str = "s") -> str:
    return make(s) + filled(s) + close(s) + land(s)


VALID = "update lockstep.attempt set state = 'validated', staged_at = now(), validated_at = now() where token = %(t)s; "
ATTACH = "select lockstep.attach_parts('public.t', %(b)s, %(t)s); "
PUT = "insert into lockstep.part values (%(b)s, %(t)s, %(s)s, 'public.t', 0); "
RENAMED = "do $$ begin execute format('alter table %%s rename to attempt_9_9_part_9', "
RENAMED += "(select min(relation)::regclass from lockstep.part)); end $$; "

# constraint → what must be refused, by its name. Batch b is planned and t its attempt, over [0, 10) of the streams s and o.
# d is committed, over the stream far. `commit` commits b, each stream with one row.
REFUSED = [
    ("own_target", make(target="other")),
    ("own_target", make(target="nowhere").replace("'public.nowhere'", "'lockstep.batch'")),
    ("newest_attempt", make(t="%(t)s - 1")),
    ("newest_attempt", make(s="far")),
    ("newest_attempt", make(b="d", t="%(dt)s", s="far")),
    ("part_once", PUT + PUT),
    ("part_landed", make() + close()),
    ("part_stays", whole() + close()),
    ("part_stays", close()),
    ("part_is_closed", make() + filled() + land()),
    ("plain_keys", "create index t_odd on public.t ((n + 1)); " + make() + close()),
    ("plain_keys", "create index t_some on public.t (n) where n > 1; " + make() + close()),
    ("its_part", make() + filled().replace("3, 0, %(b)s", "3, 0, %(b)s + 1")),
    ("t_n_check", make() + filled(n=0)),
    ("own_part", whole() + whole("o") + VALID + RENAMED + ATTACH),
    ("newest_attempt", whole() + ATTACH),
    (
        "newest_attempt",
        whole() + VALID + "update lockstep.batch set token = token + 1 where batch_id = %(b)s; " + ATTACH,
    ),
    ("own_target", whole() + VALID + ATTACH.replace("public.t", "lockstep.batch")),
    ("part_is_attached", whole() + whole("o") + "commit"),
    ("landed_whole", whole() + VALID + ATTACH + "commit"),
    ("own_merge", "select lockstep.end_merge('public.t', 'public.other', 'public.other')"),
]
CASES = [
    pytest.param(name, statement, id=f"{name}-{sum(n == name for n, _ in REFUSED[:place])}")
    for place, (name, statement) in enumerate(REFUSED)
]
PASSING = {
    "attached": whole() + whole("o") + VALID + ATTACH + "commit",
    "one part": whole() + land("o", 0) + VALID + ATTACH,
    "no rows": land(rows=0) + land("o", 0),
}


@pytest.fixture(scope="module")
def scene(servers):
    """Returns the ledger with a table by batch, a planned batch and a committed one. Tests take back what they do."""
    with servers.database(f"parts_{os.getpid()}") as dsn, closing(connect(dsn)) as conn:
        ledger = LedgerRows(conn)
        s, o, far = (ledger.stream(partition) for partition in range(3))
        d, dt = ledger.done({far: (0, 10)})
        b = ledger.planned({s: (0, 10), o: (0, 10)})
        with transaction(conn, OWNER) as cur:
            cur.execute(TABLES)
        yield ledger, {"s": s, "o": o, "far": far, "d": d, "dt": dt, "b": b, "t": ledger.opened(b)}


def done(cur, statement: str, known: dict[str, int]) -> None:
    cur.execute(statement.removesuffix("commit"), known)
    if statement.endswith("commit"):
        commit_in(cur, known["b"], known["t"], delivered=1)


@pytest.mark.parametrize(("name", "statement"), CASES)
def test_a_constraint_of_parts_refuses_by_itself(scene, name, statement):
    ledger, known = scene
    with pytest.raises(psycopg2.Error) as refused, undone(ledger.conn, OWNER) as cur:
        done(cur, statement, known)
    assert (refused.value.diag.constraint_name, name in str(refused.value)) == (name, True)


@pytest.mark.parametrize("statement", PASSING.values(), ids=PASSING)
def test_what_keeps_the_promise_passes(scene, statement):
    ledger, known = scene
    passed = False
    with undone(ledger.conn, OWNER) as cur:
        done(cur, statement, known)
        cur.execute("set constraints all immediate")
        passed = True
    assert passed


def test_each_role_does_its_own_part_alone(scene):
    ledger, known = scene
    with undone(ledger.conn, OWNER) as cur:
        cur.execute(make() + "select relation::regclass::text from lockstep.part", known)
        (part,) = cur.fetchone()
        cur.execute(
            "select array_agg(grantee::regrole::text || ' ' || privilege_type order by privilege_type) from aclexplode("
            "(select relacl from pg_class where oid = %s::regclass)) where grantee <> grantor", (part,))  # fmt: skip
        assert cur.fetchone() == (["lockstep_partition INSERT", "lockstep_partition SELECT"],)
        cur.execute(close() + land(rows=0), known)
    for statement, roles in (
        (make(s="far"), {"lockstep_partition"}),
        (close(), {"lockstep_partition"}),
        (ATTACH, {"lockstep_committer"}),
        ("select lockstep.begin_merge('public.t', 'public.other')", {"lockstep_committer"}),
        ("select lockstep.end_merge('public.t', 'public.other', 'public.other')", {"lockstep_committer"}),
        ("select lockstep.batch_of_parts('public.t', 'public.other')", {"lockstep_committer"}),
        ("select lockstep.add_keys('public.t', 'public.t')", set()),
        (PUT, set()),
        ("delete from lockstep.part", set()),
        ("update lockstep.part set relation = 0", set()),
    ):
        assert may(ledger, statement, known) == roles, statement


def may(ledger, statement: str, known: dict[str, int]) -> set[str]:
    """Returns the roles whose rights suffice. A refusal by a constraint is none of a right."""
    found = set()
    for role in roles_that_may(ledger.conn, "select 1"):
        try:
            with undone(ledger.conn, role) as cur:
                cur.execute(statement, known)
        except psycopg2.errors.InsufficientPrivilege:
            continue
        except psycopg2.errors.CheckViolation:
            pass
        found.add(role)
    return found
