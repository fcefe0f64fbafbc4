"""Tests that `verify` finds what is planted into windows, and nothing where all is whole."""

from __future__ import annotations

import psycopg2
import pytest

from lockstep.steps.proof.verify import verify

COUNTED = "every row counts in each of its windows, or is late"
LATE = "late is what its judgement calls late"
KNOWN = "every contribution is to a known window"
SUMS = "shown windows are what the contributions add up to"
EARLY = "no window is shown before the watermark has passed it"
JUDGED = "every covered offset was judged once"
TIME = "the watermark is what its streams allow"
STRANGERS = "every contribution is of a segment its batch owns"
OF_WINDOWS = {COUNTED, LATE, KNOWN, SUMS, EARLY, JUDGED, TIME, STRANGERS}
PLANTED = {
    "a moved total": ("update public.house set total = total + 1 where id = 'a'", {SUMS}),
    "another revision": ("update public.house set _revision = 7 where id = 'a'", {SUMS}),
    "another end": ("update public.house set window_end = window_end + interval '1 s'", {SUMS}),
    "a lost row": ("delete from public.house where id = 'a'", {SUMS}),
    "a row of no window": ("update public.house set id = 'x' where id = 'a'", {SUMS}),
    "a lost late row": (
        "delete from lockstep.late where window_start = (select min(window_start) from lockstep.late)", {COUNTED},
    ),
    "a late row of another judgement": ("update lockstep.late set watermark = watermark + interval '1 s'", {LATE}),
    "a late row of another batch": (
        "update lockstep.late set batch_id = (select min(batch_id) from lockstep.batch)", {LATE, COUNTED},
    ),
    "a contribution that is gone": (
        "delete from lockstep.contribution where key = (select min(key::text)::jsonb from lockstep.contribution)",
        {COUNTED, SUMS},
    ),
    "a window that is forgotten": ("delete from lockstep.window_state where revision = 0", {KNOWN}),
    "a judgement that is gone": ("delete from lockstep.judged where upper(offsets) = 2", {JUDGED}),
    "a watermark that went back": ("update lockstep.event_time set watermark = '2026-05-01T00:00Z'", {EARLY}),
    "a watermark that ran ahead": ("update lockstep.event_time set watermark = '2027-05-01T00:00Z'", {TIME}),
    "a partition that forgot": ("update lockstep.stream_time set seen = null", {TIME}),
}  # fmt: skip


def wrong(scene) -> set[str]:
    checks = verify(scene.at.conn, scene.at.broker, scene.folder, deep=False)
    assert {check.name for check in checks} >= OF_WINDOWS
    return {check.name for check in checks if not check.ok and check.name in OF_WINDOWS}


def test_windows_that_are_whole_pass_every_check(scene):
    checks = verify(scene.at.conn, scene.at.broker, scene.folder, deep=False)
    assert [check for check in checks if not check.ok] == []


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_found(scene, what, postgres):
    statement, found = PLANTED[what]
    database = scene.ask("select current_database()")[0][0]
    with psycopg2.connect(postgres, dbname=database) as conn, conn.cursor() as cur:
        cur.execute("set session_replication_role = replica")
        cur.execute(statement)
        assert cur.rowcount != 0
    conn.close()
    assert wrong(scene) == found
