"""Tests that `verify --deep` finds in windows what the ledger alone does not show, and passes whatever is whole."""

from __future__ import annotations

from dataclasses import replace

import psycopg2
import pytest

from lockstep.core.proof.certificate import NOT_FORGERS
from lockstep.core.proof.extent import conclusion, proofs
from lockstep.steps.proof import verify_windows as windows
from lockstep.steps.proof.verify import verify
from lockstep.steps.windows.admit import admit_late
from simulation.world import ME

COUNTS, LATE, TOTALS, ROWS = (
    windows.WINDOWS_COUNT_RECORDS,
    windows.LATE_BY_THE_PLAN,
    windows.TOTALS_OF_RECORDS,
    windows.ROWS_OF_RECORDS,
)
COUNTED = "every row counts in each of its windows, or is late"
SUMS = "shown windows are what the contributions add up to"
BY_JUDGEMENT = "late is what its judgement calls late"
DOUBLED = "each window has one row"
FEED = "the table is its feed folded"
WHOLE = "house: every check holds. public.house: coordinates and contents compared with Kafka."
NOON = "(key ->> 0)::timestamptz = '2026-05-01T12:00Z'"
OF_FIRST = f"{NOON} and stream_id = (select stream_id from lockstep.stream where partition = 0)"
COPY = (
    "insert into public.house select (jsonb_populate_record(h, '{}')).* from public.house h "
    "where window_start = '2026-05-01T12:00Z'"
)
# What is forged, by which statements, what deep verify says of it, and which checks show it without Kafka.
FORGED = {
    "a row that is gone": (
        ["delete from public.house where window_start = '2026-05-01T12:00Z'"],
        {ROWS: 'window ["2026-05-01T12:00:00+00:00", "a"]: its row is missing'},
        {SUMS, FEED},
    ),
    "a row that is doubled": (
        ["alter table public.house drop constraint house_pkey", COPY.format("{}")],
        {ROWS: 'window ["2026-05-01T12:00:00+00:00", "a"]: it has 2 rows'},
        {DOUBLED},
    ),
    "a row put in by hand": (
        [COPY.format('{"id": "z"}')],
        {ROWS: 'window ["2026-05-01T12:00:00+00:00", "z"]: no record of the log made its row'},
        {SUMS, FEED},
    ),
    "a row and its window, put in by hand": (
        [
            COPY.format('{"id": "z"}'),
            f"""insert into lockstep.window_state (target, key, ends, revision)
                select target, jsonb_set(key, '{{1}}', '"z"'), ends, 1 from lockstep.window_state where {NOON}""",
            f"""insert into lockstep.contribution select target, jsonb_set(key, '{{1}}', '"z"'), batch_id, stream_id, records,
                "offset", ordinal, totals from lockstep.contribution where {OF_FIRST}""",
        ],
        {COUNTS: '"z"]: 1 records count, and the log has none for it', ROWS: '"z"]: no record of the log made its row'},
        {COUNTED, SUMS, FEED},
    ),
    "totals that are changed everywhere": (
        [
            f"update lockstep.contribution set totals = jsonb_set(totals, '{{total}}', '100') where {OF_FIRST}",
            "update public.house set total = total + 99 where window_start = '2026-05-01T12:00Z'",
        ],
        {TOTALS: "its records give (1, 1, 1, 1, 1, 1, ", ROWS: "its row has (3, 3, 108, 1, 5, 9, "},
        {FEED},
    ),
    "a least value that is changed everywhere": (
        [
            f"update lockstep.contribution set totals = jsonb_set(totals, '{{least}}', '0') where {OF_FIRST}",
            "update public.house set least = 0 where window_start = '2026-05-01T12:00Z'",
        ],
        {TOTALS: "counted was (1, 1, 1, 0, 1, 1, ", ROWS: "its records give (3, 3, 9, 1, 5, 9, "},
        {FEED},
    ),
    "records that moved to another key": (
        [
            f"""update lockstep.contribution set key = jsonb_set(key, '{{1}}', '"b"') where {NOON}""",
            f"""update lockstep.window_state set key = jsonb_set(key, '{{1}}', '"b"') where {NOON}""",
            "update public.house set id = 'b' where window_start = '2026-05-01T12:00Z'",
        ],
        {COUNTS: '"a"]: its 1 records in the log do not count', ROWS: '"a"]: no window of it is known'},
        {FEED},
    ),
    "a late row that counts": (
        [
            "update lockstep.judged set watermark = '-infinity'",
            f"""insert into lockstep.contribution select l.target, l.key, l.batch_id, l.stream_id, 1, l."offset", 0,
                jsonb_build_object('records', 1, 'numbers', 1, 'total', 10, 'least', 10, 'most', 10, 'uids', 10,
                    'crcs', l.row -> 'crc')
                from lockstep.late l where {NOON}""",
            f"delete from lockstep.late where {NOON}",
            "update lockstep.late set watermark = '-infinity'",
            """update public.house set records = 4, numbers = 4, total = total + 10, most = 10, uids = uids + 10,
                crcs = crcs + (select (row ->> 'crc')::numeric from lockstep.late) where window_start = '2026-05-01T12:00Z'""",
        ],
        {COUNTS: ": 1 records count, and the log has none for it", LATE: "of its batch's plan, and is not kept as late"},
        {BY_JUDGEMENT, FEED},
    ),
    "a record that counts and is called late": (
        [
            "update lockstep.judged set watermark = '2026-05-01T13:00Z' where upper(offsets) = 2",
            f"""insert into lockstep.late select target, stream_id, 0, 0, '2026-05-01T12:00Z', '2026-05-01T12:01Z', key,
                '2026-05-01T12:00Z', '2026-05-01T13:00Z', batch_id, '{{}}' from lockstep.contribution where {OF_FIRST}""",
            f"delete from lockstep.contribution where {OF_FIRST}",
            """update public.house set records = 2, numbers = 2, total = 8, least = 3, uids = 8, crcs = crcs - (
                select (totals ->> 'crcs')::numeric from lockstep.contribution where records = 1 and "offset" = 0
                and (key ->> 0)::timestamptz < '2026-05-01T12:00Z' and (totals ->> 'total')::int = 1)
                where window_start = '2026-05-01T12:00Z'""",
        ],
        {
            COUNTS: ": its 1 records in the log do not count",
            LATE: "offset 0 is kept as late for the window until 2026-05-01 12:01:00+00, and no record there is late",
        },
        {FEED},
    ),
    "a late row that is lost, and the count of its batch with it": (
        [
            "delete from lockstep.late",
            """update lockstep.result set rows = 1 where rows = 2 and first_offset = 3""",
        ],
        {LATE: "2 are wrong: house.v1-0: offset 3 is late for the window until 2026-05-01 12:00:30+00, by the watermark"},
        set(),
    ),
    "a late row of other values": (
        ["update lockstep.late set row = jsonb_set(row, '{n}', '0')"],
        {LATE: "2 are wrong: house.v1-0: offset 3: its late row for the window until 2026-05-01 12:00:30+00 is not what"},
        set(),
    ),
}  # fmt: skip


def deep(scene) -> list:
    return verify(scene.at.conn, scene.at.broker, scene.folder, deep=True)


def wrong(scene) -> dict[str, str]:
    return {check.name: check.detail for check in deep(scene) if not check.ok}


def whole(scene) -> None:
    """Requires that every check holds, and that everything was compared with the log."""
    checks = deep(scene)
    assert {check.name: check.detail for check in checks if not check.ok} == {}
    assert [check.left_out for check in checks if check.left_out] == []
    assert conclusion("house", proofs(["public.house"], checks), checks) == WHOLE


def by_name(scene) -> dict:
    return {check.name: check for check in deep(scene)}


@pytest.fixture
def spoil(database, postgres):
    """Returns `spoil(statement, ...)`, which no constraint and no trigger sees."""

    def run(*statements: str) -> None:
        name = database.rpartition("/")[2]
        with psycopg2.connect(postgres, dbname=name) as conn, conn.cursor() as cur:
            cur.execute("set session_replication_role = replica")
            for statement in statements:
                cur.execute(statement)
                assert cur.rowcount != 0, statement
        conn.close()

    return run


def test_windows_that_are_whole_are_compared_with_kafka(scene):
    whole(scene)
    told = by_name(scene)
    assert told[COUNTS].detail == "20 records in 8 windows and keys, of 7 segments"
    assert told[LATE].detail == "2 late, of 7 segments"
    assert told[ROWS].detail == "8 windows and keys"


@pytest.mark.parametrize("what", FORGED)
def test_what_is_forged_is_named(scene, spoil, what):
    statements, said, plain = FORGED[what]
    spoil(*statements)

    found = wrong(scene)

    for name, text in said.items():
        assert text in found.get(name, ""), f"{name}: {found}"
    checks = verify(scene.at.conn, scene.at.broker, scene.folder, deep=False)
    assert {check.name for check in checks if not check.ok} == plain


def test_a_record_that_became_a_reject_is_named(scene, spoil):
    spoil(
        f"delete from lockstep.contribution where {OF_FIRST}",
        """insert into lockstep.reject (stream_id, "offset", batch_id, reason)
            select stream_id, 0, 1, 'no JSON' from lockstep.stream where partition = 0""",
    )

    assert "house.v1-0 offset 0: it is a reject, and its record decodes to a row" in wrong(scene)[COUNTS]


def test_an_event_at_no_time_of_a_window_that_is_no_reject_is_named(timed, spoil):
    scene = timed()
    scene.put(0, 0, "9999-12-31T23:59:59Z")
    scene.done()
    whole(scene)
    spoil("delete from lockstep.reject")

    assert "house.v1-0 offset 1: its event is at no time of a window, and it is no reject" in wrong(scene)[COUNTS]


def test_replays_fills_and_skips_are_whole(scene):
    scene.redo("replay", {0: 0, 1: 0, 2: 0}, None)
    whole(scene)
    scene.put(1, 20, 950)
    scene.skip({1: 5})
    scene.put(1, 960)
    scene.done()
    whole(scene)
    scene.redo("fill", None, None)
    assert scene.shown()[0, "a"] == (4, 2)
    whole(scene)
    scene.emit()
    whole(scene)
    scene.redo("replay", {0: 0, 1: 0, 2: 0}, None)
    whole(scene)


def test_what_is_admitted_is_late_until_its_replay_and_then_counts(scene):
    scene.redo("replay", {0: 0}, None)
    admit_late(scene.at.conn, scene.at.broker, scene.folder, ME)
    assert len(scene.late()) == 2
    whole(scene)
    scene.end_requests()
    assert scene.late() == []
    assert scene.shown()[0, "a"] == (4, 2)
    whole(scene)
    scene.redo("replay", {0: 0, 1: 0, 2: 0}, None)
    whole(scene)


def test_an_admission_that_nobody_decided_is_named(scene, spoil):
    spoil("update lockstep.judged set admitted_by = 7 where lower(offsets) = 3", "delete from lockstep.late")

    assert "is not kept as late" in wrong(scene)[LATE]


def test_a_segment_is_judged_by_the_lateness_of_its_own_definition(scene):
    target = replace(scene.pipeline.first, lateness="1 hour")
    scene.folder = replace(scene.folder, pipeline=replace(scene.pipeline, target=target))
    whole(scene)
    scene.redo("replay", {0: 0, 1: 0, 2: 0}, None)
    assert scene.late() == []
    whole(scene)


def test_what_the_log_no_longer_holds_is_said_and_the_rest_is_compared(scene, spoil):
    scene.log.trim(0, 2)
    told = by_name(scene)
    assert told[COUNTS].ok
    assert told[COUNTS].left_out == "1 segments that the log no longer holds"
    assert told[ROWS].left_out == ("1 segments that the log no longer holds; 4 windows in which their records count")
    assert told[ROWS].detail == "4 windows and keys"

    spoil(
        f"update lockstep.contribution set totals = jsonb_set(totals, '{{total}}', '100') where {OF_FIRST}",
        "update public.house set total = total + 99 where window_start = '2026-05-01T12:00Z'",
    )
    assert wrong(scene).keys() == {FEED}

    other = OF_FIRST.replace("partition = 0", "partition = 1")
    spoil(
        f"update lockstep.contribution set totals = jsonb_set(totals, '{{total}}', '100') where {other}",
        "update public.house set total = total + 97 where window_start = '2026-05-01T12:00Z'",
    )
    assert wrong(scene).keys() == {TOTALS, FEED}


def test_without_a_segment_that_the_log_holds_nothing_is_proved(scene):
    for partition in range(3):
        scene.log.trim(partition, 10)
    checks = deep(scene)
    assert [check for check in checks if not check.ok] == []
    assert {(check.proves, check.is_made) for check in checks if check.name in windows.NAMES} == {("nothing", False)}
    said = conclusion("house", proofs(["public.house"], checks), checks)
    assert said.endswith(f"compared with the ledger. {NOT_FORGERS}.")
