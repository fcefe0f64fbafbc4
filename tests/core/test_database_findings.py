"""Tests if the database keeps what it acknowledged: each case with its reason, on both sides of the line."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lockstep.core.health import database_findings as judge
from lockstep.core.health.database_findings import Backends, DatabaseFacts, Room, Setting
from lockstep.core.health.findings import Check, DoctorReport, Finding, Severity, problem, warning
from lockstep.core.health.session_findings import session_findings

SOUND: dict[str, Any] = {
    Check.FSYNC: Setting("on", "default"),
    Check.FULL_PAGES: Setting("on", "default"),
    Check.SYNCHRONOUS: Setting("on", "default"),
    Check.ISOLATION: Setting("read committed", "default"),
    Check.IDLE_TIMEOUT: Setting("0", "default"),
    Check.CHECKSUMS: Setting("on", "override"),
    Check.REPLICATION_ROLE: Setting("origin", "default"),
    Check.STATEMENT_TIMEOUT: Setting("0", "default"),
    Check.TRANSACTION_TIMEOUT: Setting("0", "default"),
    Check.SESSION_TIMEOUT: Setting("0", "default"),
}
FACTS = DatabaseFacts(
    login="airflow",
    database="warehouse",
    version=150_004,
    settings=SOUND,
    standby=False,
    backends=Backends(told=11, first=11, again=11, other=12),
    room=Room(allowed=97, used=10),
    longest_idle=None,
)


def having(check: Check, value: str, source: str = "default") -> DatabaseFacts:
    return replace(FACTS, settings=SOUND | {check: Setting(value, source)})


def severity(finding) -> str | None:
    return finding and str(finding.severity)


def test_a_sound_database_gives_no_finding():
    judged = judge.database_findings(FACTS, tasks=8)
    assert set(judged) == {None}
    assert len(judged) == 11


@pytest.mark.parametrize(
    ("version", "expected", "reason"),
    [
        (150_000, None, "the oldest that is tested"),
        (180_004, None, "newer is fine"),
        (149_999, "problem", "older than anything that was tested"),
    ],
)
def test_version(version, expected, reason):
    assert severity(judge.version(replace(FACTS, version=version))) == expected, reason


@pytest.mark.parametrize("check", [Check.FSYNC, Check.FULL_PAGES])
@pytest.mark.parametrize(
    ("value", "expected", "reason"),
    [("on", None, "a crash takes nothing back"), ("off", "problem", "a crash of the machine may tear pages")],
)
def test_what_survives_a_crash_of_the_machine(check, value, expected, reason):
    assert severity(judge.kept_on(having(check, value), check)) == expected, reason


@pytest.mark.parametrize(
    ("value", "expected", "reason"),
    [
        ("on", None, "on our disk before it is acknowledged"),
        ("remote_apply", None, "on a standby's, too"),
        ("local", "problem", "the other commands refuse it"),
        ("remote_write", "problem", "the standby may not have it on disk"),
        ("off", "problem", "acknowledged commits are lost"),
    ],
)
def test_synchronous_commit(value, expected, reason):
    assert severity(judge.synchronous(having(Check.SYNCHRONOUS, value))) == expected, reason


@pytest.mark.parametrize(
    ("source", "found", "remedy", "reason"),
    [
        ("user", "role airflow", 'alter role "airflow" reset synchronous_commit', "the login's own"),
        ("database", "database warehouse", 'alter database "warehouse" reset synchronous_commit', "the database's"),
        (
            "database user",
            "role airflow in database warehouse",
            'alter role "airflow" in database "warehouse" reset synchronous_commit',
            "of the login in this database",
        ),
        ("client", "own options", "take synchronous_commit out of the options", "the DSN's"),
        (
            "configuration file",
            "configuration file",
            "alter system set synchronous_commit = on; select pg_reload_conf()",
            "the server's",
        ),
    ],
)
def test_a_setting_is_undone_where_it_was_made(source, found, remedy, reason):
    finding = judge.synchronous(having(Check.SYNCHRONOUS, "off", source))
    assert found in finding.found, reason
    assert finding.remedy.startswith(remedy), reason


@pytest.mark.parametrize(
    ("value", "expected", "reason"),
    [
        ("read committed", None, "each statement sees what was committed before it"),
        ("repeatable read", "problem", "stale positions behind a lock"),
        ("serializable", "problem", "the same, and failures that nobody retries"),
    ],
)
def test_isolation(value, expected, reason):
    assert severity(judge.isolation(having(Check.ISOLATION, value))) == expected, reason


@pytest.mark.parametrize(
    ("value", "expected", "reason"),
    [
        ("0", None, "never; where it matters, the sessions set their own"),
        ("60000", None, "a minute is long enough for Kafka to answer"),
        ("59999", "warning", "a slow read is cut off"),
        ("1", "warning", "every read is"),
    ],
)
def test_idle_timeout(value, expected, reason):
    assert severity(judge.idle_timeout(having(Check.IDLE_TIMEOUT, value))) == expected, reason


@pytest.mark.parametrize(
    ("longest", "expected", "reason"),
    [
        (None, None, "nobody is idle in a transaction"),
        (timedelta(minutes=5), None, "somebody thinks"),
        (timedelta(minutes=6), "warning", "somebody has forgotten"),
    ],
)
def test_idle(longest, expected, reason):
    assert severity(judge.idle(replace(FACTS, longest_idle=longest))) == expected, reason


@pytest.mark.parametrize(
    ("room", "tasks", "expected", "reason"),
    [
        (Room(97, 10), 8, None, "87 are free, 12 are needed"),
        (Room(97, 85), 8, None, "exactly as many as are needed"),
        (Room(97, 86), 8, "warning", "others hold too many now"),
        (Room(12, 0), 8, None, "exactly as many as are needed, all free"),
        (Room(11, 0), 8, "problem", "there never are enough"),
    ],
)
def test_connections(room, tasks, expected, reason):
    assert severity(judge.connections(replace(FACTS, room=room), tasks)) == expected, reason


@pytest.mark.parametrize(
    ("value", "expected", "reason"),
    [("on", None, "a page that rots is refused"), ("off", "warning", "it is served")],
)
def test_checksums(value, expected, reason):
    assert severity(judge.checksums(having(Check.CHECKSUMS, value))) == expected, reason


@pytest.mark.parametrize(
    ("standby", "expected", "reason"), [(False, None, "the primary"), (True, "problem", "a copy, which lags")]
)
def test_standby(standby, expected, reason):
    assert severity(judge.standby(replace(FACTS, standby=standby))) == expected, reason


@pytest.mark.parametrize(
    ("backends", "expected", "reason"),
    [
        (Backends(11, 11, 11, 12), None, "each connection has its own"),
        (Backends(11, 11, 13, 12), "problem", "two statements, two backends"),
        (Backends(90, 11, 11, 11), "problem", "two connections, one backend"),
        (Backends(90, 11, 11, 12), "warning", "somebody between answers the handshake"),
    ],
)
def test_pooler(backends, expected, reason):
    assert severity(judge.pooler(backends)) == expected, reason


@pytest.mark.parametrize("field", ["subject", "found", "why", "remedy"])
@pytest.mark.parametrize("text", ["", "two\nlines"])
def test_a_finding_says_everything_and_each_on_one_line(field, text):
    whole = {"subject": "s", "found": "f", "why": "w", "remedy": "r"}
    assert Finding(Severity.WARNING, Check.FSYNC, **whole)
    with pytest.raises(ValueError, match=field):
        Finding(Severity.WARNING, Check.FSYNC, **(whole | {field: text}))


def test_a_report_says_problems_first_what_is_shared_once_and_counts_the_rest():
    shared = warning(Check.CHECKSUMS, "database", "off", "why", "remedy")
    wrong = problem(Check.FSYNC, "database", "off", "why", "remedy")
    report = DoctorReport.of([None, shared, None, wrong, shared, None])
    assert report == DoctorReport((wrong, shared), 3)
    assert (report.problems, report.ok) == (1, False)
    assert DoctorReport.of([shared, None]).ok


def test_a_sound_session_gives_no_finding():
    assert set(session_findings(FACTS)) == {None}
    older = {name: setting for name, setting in SOUND.items() if name != Check.TRANSACTION_TIMEOUT}
    assert set(session_findings(replace(FACTS, settings=older))) == {None}


@pytest.mark.parametrize(
    ("check", "value", "found", "remedy"),
    [
        (
            Check.STATEMENT_TIMEOUT,
            "30000",
            "30 seconds, set for role airflow",
            'alter role "airflow" reset statement_timeout',
        ),
        (
            Check.TRANSACTION_TIMEOUT,
            "1500",
            "1.5 seconds, set for role airflow",
            'alter role "airflow" reset transaction_timeout',
        ),
        (
            Check.SESSION_TIMEOUT,
            "60000",
            "60 seconds, set for role airflow",
            'alter role "airflow" reset idle_session_timeout',
        ),
    ],
)
def test_a_bound_of_the_login_is_a_warning(check, value, found, remedy):
    (finding,) = filter(None, session_findings(having(check, value, "user")))
    assert (severity(finding), finding.check, finding.found, finding.remedy) == ("warning", check, found, remedy)


def test_a_role_under_which_no_trigger_runs_is_a_problem():
    (finding,) = filter(None, session_findings(having(Check.REPLICATION_ROLE, "replica", "database")))
    assert (severity(finding), finding.found) == ("problem", "replica, set for database warehouse")
    assert finding.remedy == 'alter database "warehouse" reset session_replication_role'
