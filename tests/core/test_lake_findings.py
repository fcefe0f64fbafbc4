"""Tests what is found of a lake table, each by the facts that it needs and no others."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lockstep.core.health.findings import Check, Severity
from lockstep.core.lake.lake_findings import LakeFacts, lake_findings

WELL = LakeFacts(
    "lockstep.sales.orders",
    {"_stream": "full", "_offset": "full", "_batch": "truncate(16)"},
    5_000,
    1_000,
    8 * 2**20,
    0,
    timedelta(hours=24),
    11_000,
)
CASES = {
    Check.LAKE_METRICS: (
        replace(WELL, modes={**WELL.modes, "_stream": "none", "_offset": "counts"}),
        "no bounds of _stream, _offset",
        "alter table lockstep.sales.orders set tblproperties ('write.metadata.metrics.column._stream'='full', ",
    ),
    Check.LAKE_FILES: (replace(WELL, small_files=1_001), "1,001 of its 5,000", "lockstep upkeep orders --lake"),
    Check.LAKE_METADATA: (replace(WELL, metadata_bytes=9 * 2**20), "has 9.0 MiB", "lockstep upkeep orders --lake"),
    Check.LAKE_SNAPSHOTS: (replace(WELL, snapshots=11_001), "keeps 11,001 snapshots", "lockstep upkeep orders --lake"),
    Check.LAKE_DELETES: (replace(WELL, equality_deletes=2), "2 of its files", "'delete-file-threshold', '1'"),
    Check.LAKE_ORPHANS: (replace(WELL, longest=timedelta(hours=36)), "1.5 days", "remove_orphan_files"),
}


def test_nothing_is_found_of_a_table_at_its_bounds():
    assert lake_findings(WELL, "orders") == [None] * len(CASES)


@pytest.mark.parametrize("check", CASES)
def test_each_fault_is_one_finding_with_its_remedy(check):
    facts, found, remedy = CASES[check]
    (finding,) = [each for each in lake_findings(facts, "orders") if each]
    assert (finding.check, finding.subject) == (check, "table lockstep.sales.orders")
    assert (finding.severity is Severity.PROBLEM) == (check is Check.LAKE_DELETES)
    assert found in finding.found
    assert remedy in finding.remedy
