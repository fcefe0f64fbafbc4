from __future__ import annotations

from dataclasses import replace

import pytest

from lockstep.core.health.findings import Check
from lockstep.core.health.replication_findings import ReplicationFacts, Standby, replication_findings

ALONE = ReplicationFacts("airflow", "", ())
SYNC, ASYNC = Standby("b", "sync"), Standby("c", "async")


@pytest.mark.parametrize(
    ("facts", "expected", "reason"),
    [
        (ALONE, None, "one server, and nothing to fail over to"),
        (replace(ALONE, names="*", standbys=(SYNC,)), None, "COMMIT waits for the standby"),
        (replace(ALONE, names="ANY 1 (b, c)", standbys=(Standby("b", "quorum"), ASYNC)), None, "one of them confirms"),
        (replace(ALONE, names="*", standbys=(SYNC, ASYNC)), None, "another one may lag"),
        (replace(ALONE, standbys=(ASYNC,)), "warning", "what was told may be on no standby"),
        (replace(ALONE, names="b"), "problem", "COMMIT waits for a standby that is away"),
        (replace(ALONE, names="b", standbys=(ASYNC,)), "problem", "the one that is there is not the one waited for"),
        (replace(ALONE, standbys=(Standby(None, None),)), "warning", "this login cannot see how it streams"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_standbys(facts, expected, reason):
    finding = replication_findings(facts)[0]
    assert (finding and str(finding.severity)) == expected, reason
    assert finding is None or finding.check is Check.STANDBYS


@pytest.mark.parametrize(
    ("hosts", "session", "expected"),
    [
        (1, "any", None),
        (2, "read-write", None),
        (2, "primary", None),
        (2, "any", "problem"),
        (3, "prefer-standby", "problem"),
    ],
)
def test_several_servers_need_a_session_that_may_write(hosts, session, expected):
    finding = replication_findings(replace(ALONE, hosts=hosts, session=session))[1]
    assert (finding and str(finding.severity)) == expected
    assert finding is None or "target_session_attrs=read-write" in finding.remedy


def test_a_login_that_may_not_look_is_told_what_to_grant():
    finding = replication_findings(replace(ALONE, standbys=(Standby(None, None),)))[0]
    assert finding.remedy.startswith('grant pg_read_all_stats to "airflow"')
