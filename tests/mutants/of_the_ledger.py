"""Lists mutants of guards that stand side by side against the same danger."""

from __future__ import annotations

from mutants.mutant import ALONE, Drop, Edit, Mutant, alone, one

ZOMBIE, MOVED, GAP = ("a_zombie_commits",), ("the_position_has_moved_on",), ("a_planner_leaves_offsets_out",)
TWICE, CLAIMED = ("the_same_offsets_are_planned_twice",), ("two_replays_take_the_same_segment",)
STALE, LOST = ("coverage_changes_owner_under_a_plan",), ("a_fill_takes_what_is_lost",)
BACK, HALF = ("a_replay_writes_positions",), ("half_a_batch_is_committed",)
STAGED, TRIMMED = ("staged_rows_disappear",), ("records_are_trimmed_under_the_read",)
KEPT_OUT = (
    "tests/simulation/test_straight.py::test_a_row_of_another_record_is_kept_out_by_the_database_and_refuses_the_range"
)
WITHIN = "\nwhere _stream = {stream_id} and _offset >= {from_offset} and _offset < {until_offset}"
GUARDS = "ledger/migrations/0054_archived.sql"

MUTANTS = [
    # Who may commit.
    alone(
        "no fence in Python",
        "fence",
        ZOMBIE,
        "an older attempt is told by the token that it is superseded",
        Edit("ledger/batch/attempts.py", "if batch.token != attempt.token:", "if batch.token < 0:"),
        Edit("ledger/batch/attempts.py", "if nonce != attempt.nonce:", 'if nonce == "":'),
        long=True,
    ),
    alone(
        "an attempt that was closed may commit",
        "older_closed",
        ZOMBIE,
        "opening an attempt closes the older ones, and commit looks at that",
        Edit(
            "ledger/batch/commit.py",
            "if row is None or row.state != AttemptState.VALIDATED or not row.success:",
            "if row is None:",
        ),
        long=True,
    ),
    alone(
        "newest_attempt dropped",
        "newest_attempt",
        ZOMBIE,
        "the fence is a constraint, too",
        Drop("drop trigger newest_attempt on lockstep.commit"),
        long=True,
    ),
    alone(
        "newest_attempt looks at the state alone",
        "newest_attempt",
        ZOMBIE,
        "the token is what tells two attempts of a planned batch apart",
        Edit(GUARDS, "if newest is distinct from new.token or found is", "if found is"),
        long=True,
    ),
    # Where a batch may begin.
    alone(
        "claims wherever the position is",
        "claimed_at_position",
        GAP,
        "a live batch is written down only where its streams stand",
        Edit("ledger/batch/plan.sql", "and s.position = lower(r.offsets) and s.retired_at", "and s.retired_at"),
        long=True,
    ),
    alone(
        "positions not looked at before the rows",
        "positions",
        MOVED,
        "a commit locks its streams and sees where they stand before it writes anything",
        Edit("ledger/batch/commit.py", "if row.retired or row.position != row.from_offset:", "if row.retired:"),
        long=True,
    ),
    alone(
        "no compare-and-set",
        "compare_and_set",
        MOVED,
        "a position moves only from where the batch begins",
        Edit("ledger/batch/commit.sql", " and s.position = lower(r.offsets)", ""),
        long=True,
    ),
    alone(
        "no_gap dropped from streams",
        "no_gap",
        BACK,
        "a position moves forward, and only over what is covered",
        Drop("drop trigger no_gap on lockstep.stream"),
        long=True,
    ),
    alone(
        "no_gap dropped from coverage",
        "covered_stays",
        ("a_replay_covers_nothing",),
        "coverage below the position is replaced and never taken away",
        Drop("drop trigger no_gap on lockstep.coverage"),
        long=True,
    ),
    # Whose the offsets are.
    alone(
        "one_unfinished_live_batch dropped",
        "one_unfinished_live_batch",
        TWICE,
        "a planner that does not see the unfinished batch plans nothing beside it",
        Drop("drop index lockstep.one_unfinished_live_batch"),
        long=True,
    ),
    alone(
        "claimed_once dropped",
        "claimed_once",
        CLAIMED,
        "over all lanes an offset has one unfinished batch",
        Drop("alter table lockstep.claim drop constraint claimed_once"),
        long=True,
    ),
    alone(
        "others' claims are free",
        "taken",
        CLAIMED,
        "a request leaves to others what they work on",
        Edit("core/planning/lanes.py", "if not over:", "if True:"),
        long=True,
    ),
    alone(
        "no second look behind the claims",
        "second_look",
        STALE,
        "what a plan has read may be stale before its claims stand",
        Edit("ledger/batch/plan.py", "return not every(cur)", "return True"),
        long=True,
    ),
    alone(
        "a replay replaces whoever owns the segment",
        "expected_owner",
        STALE,
        "only what plan has seen makes room",
        Edit(
            "ledger/batch/commit.sql",
            "c.kind = k.expects and c.batch_id is not distinct from k.expects_batch",
            "c.kind = k.expects",
        ),
        long=True,
    ),
    alone(
        "a fill reads what is lost",
        "free_offsets",
        LOST,
        "a loss was accepted: it is no hole",
        Edit("ledger/changes/requests.sql", "c.kind <> 'skipped'), '{}'", "c.kind = 'batch'), '{}'"),
        long=True,
    ),
    alone(
        "others in the way are not looked at",
        "in_the_way",
        LOST,
        "nothing else may lie under a claim when it commits",
        Edit("ledger/batch/commit.py", "found.expected != gone or found.in_the_way", "found.expected != gone"),
        long=True,
    ),
    alone(
        "no_offset_twice dropped",
        "no_offset_twice",
        MOVED,
        "an offset has one owner",
        Drop("alter table lockstep.coverage drop constraint no_offset_twice"),
        long=True,
    ),
    # Whole or not at all.
    alone(
        "staged rows are not counted again",
        "counts",
        STAGED,
        "what was validated is what is published",
        Edit("ledger/staging/contents.py", "if found != (row.rows, row.rejected):", "if not found:"),
        long=True,
    ),
    alone(
        "inserted rows are not counted",
        "rows_counted",
        STAGED,
        "as many rows come in as were staged",
        Edit("targets/append.py", "if cur.rowcount != rows.count:", "if rows.count < 0:"),
        long=True,
    ),
    alone(
        "do nothing hides a duplicate",
        "target_key",
        ("a_row_is_there_already",),
        "a row that stands there already is an error, and is named",
        Edit("targets/append.sql", "from {rows} t\n\n", "from {rows} t on conflict do nothing\n\n"),
    ),
    one(
        "copies take rows of other records",
        "what a task copies into the target is of its range",
        tuple(f"{KEPT_OUT}[{row}]" for row in ("_offset-6", "_offset--1", "_stream-99")),
        Edit("targets/append.sql", WITHIN, ""),
        long=True,
    ),
    alone(
        "covered_by_commit dropped",
        "covered_by_commit",
        HALF,
        "what a batch covers it has committed",
        Drop("alter table lockstep.coverage drop constraint covered_by_commit"),
        long=True,
    ),
    alone(
        "committed_whole dropped",
        "committed_whole",
        HALF,
        "a batch closes with a commit of each of its ranges",
        Drop("drop trigger committed_whole on lockstep.batch"),
        long=True,
    ),
    # The same log.
    alone(
        "plan ignores the topic id",
        "plan_looks_at_the_log",
        ("the_log_is_another_one",),
        "a topic of the same name is another log",
        Edit(
            "core/planning/blocked.py",
            "        if was != found:\n            what",
            "        if was[0] != found[0]:\n            what",
        ),
        long=True,
    ),
    alone(
        "stage ignores the topic id",
        "stage_looks_at_the_log",
        ("the_log_is_another_one",),
        "a topic may be made anew between plan and read",
        Edit(
            "steps/batch/same_log.py",
            "now is None or planned_on != {(now[0], now[2])} or bounds is None",
            "bounds is None",
        ),
        long=True,
    ),
    alone(
        "log start is not looked at after the read",
        "log_start_after",
        TRIMMED,
        "what was deleted under the read may not have been read",
        Edit(
            "steps/batch/same_log.py",
            "if not bounds.holds(item.offsets.from_offset, item.offsets.until_offset):",
            "if bounds.log_start < 0:",
        ),
        long=True,
    ),
    Mutant(
        "read_whole dropped",
        "a trimmed read commits nothing, even when the code did not look",
        (Edit(GUARDS, "and u.log_start_after > lower(g.offsets)", "and u.log_start_after < 0"),),
        (
            f"{ALONE}[records_are_trimmed_under_the_read-read_whole]",
            "tests/ledger/test_constraints.py::test_what_was_trimmed_while_it_was_read_has_no_commit",
        ),
        long=True,
    ),
]
