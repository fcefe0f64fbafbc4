"""Mutants of what keeps lateness decided once, windows whole, and time from going back."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, Mutant, one

EVENT_TIME = "ledger/migrations/0043_event_time.sql"
CONSTRAINTS = "tests/windows/test_constraints_of_windows.py::"
REFUSES = f"{CONSTRAINTS}test_a_constraint_refuses_by_itself"
JUDGING = "tests/windows/test_judging.py::"
STEPPED = "ledger/migrations/0087_clock_stepped_back.sql"
FOLDING = "ledger/migrations/0045_folding.sql"
ERASED = "ledger/migrations/0047_late_and_erased.sql"
BY_THE_SET = "ledger/migrations/0056_windows_by_the_set.sql"
ADMITS = "tests/windows/test_admission.py::"
ERASES = "tests/windows/test_erased_windows.py::"
FOLDS = "tests/windows/test_folding.py::"
EMITS = "tests/windows/test_emit.py::"
COPIED = "tests/cli/test_windows_copied.py::"
TELLS = "tests/dags/test_emit_task.py::"
REFUSES_FOLDING = "tests/windows/test_constraints_of_folding.py::test_a_constraint_refuses_by_itself"


def dropped(table: str, name: str, why: str, *cases: int, kind: str = "constraint") -> Mutant:
    """Returns a mutant that drops a constraint or a trigger of the tables of event time."""
    gone = {
        "constraint": f"alter table lockstep.{table} drop constraint {name}",
        "trigger": f"drop trigger {name} on lockstep.{table}",
    }[kind]
    red = tuple(f"{REFUSES}[{name}-{case}]" for case in cases or (0,))
    return one(f"{name} dropped from {table}", why, red, Drop(gone), long=True)


def unasked(name: str, why: str, old: str, new: str, *cases: int, file: str = EVENT_TIME) -> Mutant:
    """Returns a mutant in which a trigger does not ask for one of its promises."""
    red = tuple(f"{REFUSES}[{name}-{case}]" for case in cases or (0,))
    return one(f"{name} is not asked", why, red, Edit(file, old, new), long=True)


MUTANTS = [
    dropped("event_time", "watermark_rises", "windows that were shown would be open again", 0, 1, kind="trigger"),
    dropped("stream_time", "time_rises", "a partition would forget what it has seen", 0, 1, 2, kind="trigger"),
    dropped(
        "batch", "watermark_of_plan", "a batch would be judged by another time at each try", 0, 1, 3, kind="trigger"
    ),
    dropped("batch", "watermark_of_live", "a fill would have records that are late"),
    dropped("judged", "judged_half_open", "offsets without an end would be judged"),
    dropped("judged", "judged_once", "an offset would be judged twice, and a replay would choose"),
    dropped("judged", "judged_stays", "a replay would judge otherwise than at first", 0, 1, 2, 3, kind="trigger"),
    dropped("window_state", "one_state_a_window", "a window would have two revisions"),
    one(
        "revision_begins_at_0 dropped from window_state",
        "a window would be shown before it is known",
        (f"{REFUSES}[revision_by_one-0]",),
        Drop("drop trigger revision_begins_at_0 on lockstep.window_state"),
        long=True,
    ),
    dropped(
        "window_state", "revision_by_one", "a revision would be used twice, or passed over", 1, 2, 3, kind="trigger"
    ),
    dropped("window_state", "shown_when_passed", "a window would be shown before its time", 0, 1, 2, kind="trigger"),
    dropped("window_state", "window_stays", "a window's revisions would begin anew", kind="trigger"),
    dropped("late", "late_once", "a late record would be kept twice"),
    dropped("late", "late_by_judgement", "a record that counts would be called late", 0, 1, 2, 3, kind="trigger"),
    dropped("late", "late_stays", "a late record would be gone and count nowhere", kind="trigger"),
    dropped("late", "late_is_not_changed", "a late record would be another one later", kind="trigger"),
    unasked(
        "watermark_by_streams",
        "a window would be shown while records of it are still to come",
        "if allowed is null or new.watermark > allowed then",
        "if false then",
        0,
        1,
    ),
    unasked(
        "not_ahead_of_clock",
        "one record with a fast clock would close every window",
        "if risen > clock_timestamp() then",
        "if false then",
        0,
        1,
        file=STEPPED,
    ),
    one(
        "what a partition came to is asked for again after a step of the clock",
        "no window would be shown until the clock has caught up",
        (f"{EMITS}test_a_clock_that_was_stepped_back_ends_no_emit",),
        Edit(STEPPED, "case when new.seen is distinct from old.seen then new.seen end", "new.seen"),
        long=True,
    ),
    unasked(
        "judged_by_plan",
        "a batch would be judged by what came behind its plan",
        "and new.watermark = case b.lane",
        "and new.watermark is not null or new.watermark = case b.lane",
        1,
        2,
    ),
    one(
        "a pipeline without a watermark passes for shown_when_passed",
        "a window would be shown while records of it are still to come",
        (f"{REFUSES}[shown_when_passed-2]",),
        Edit(BY_THE_SET, "(t.watermark >= b.ends) is not true", "t.watermark < b.ends"),
        long=True,
    ),
    one(
        "windows are shown in a table that another pipeline has taken",
        "two pipelines would write one table",
        (f"{EMITS}test_e7_nothing_is_shown_in_a_table_that_another_pipeline_has_taken_meanwhile",),
        Edit("steps/windows/emit.py", " or owners.conflicts(cur, pipeline)", ""),
        long=True,
    ),
    one(
        "a table with windows of a forgotten pipeline is free",
        "the next pipeline's records would count in windows of the first one, and be shown at once",
        (f"{EMITS}test_a_table_with_windows_is_taken_by_no_other_pipeline_behind_a_forget[as windows]",),
        Edit("ledger/changes/owners.py", "found or windows_conflict(cur, pipeline, table, target)", "found"),
        long=True,
    ),
    one(
        "each run of Airflow tells the watermark",
        "DAGs behind it would run for nothing",
        (f"{TELLS}test_the_watermark_is_told_once_for_each_rise_also_if_a_try_died",),
        Edit("airflow/watermark.py", "if windows or _is_news(", "if True or _is_news("),
        long=True,
    ),
    one(
        "the watermark is told only by the try that shows windows",
        "a try that dies behind its emission would leave a rise untold",
        (f"{TELLS}test_the_watermark_is_told_once_for_each_rise_also_if_a_try_died",),
        Edit("airflow/watermark.py", "if windows or _is_news(", "if windows and _is_news("),
        long=True,
    ),
    dropped("target_owner", "windows_of_one", "another pipeline would own a table with windows", 0, 1, kind="trigger"),
    one(
        "windows_of_one dropped from commit",
        "another pipeline would write a table with windows that nobody owns",
        tuple(f"{CONSTRAINTS}test_nobody_else_commits_into_a_table_with_windows[{n}]" for n in ("unowned", "shared")),
        Drop("drop trigger windows_of_one on lockstep.commit"),
        long=True,
    ),
    one(
        "windows are handed over to a pipeline that makes rows of them",
        "a plain append would write among the rows of windows",
        (f"{COPIED}test_windows_are_handed_over_to_nobody_whatever_the_other_pipeline_makes_of_the_table",),
        Edit("steps/changes/hand_over.py", " or owners.windows_conflict(cur, receiver.name, its, target)", ""),
        long=True,
    ),
    one(
        "windows are asked for only by windows",
        "an append would write among the rows of windows",
        (f"{EMITS}test_a_table_with_windows_is_taken_by_no_other_pipeline_behind_a_forget[as an append]",),
        Edit("ledger/changes/owners.sql", "or exists (select from lockstep.window_state where target = %(name)s)", ""),
        long=True,
    ),
    one(
        "windows may go by another column",
        "one table would hold totals by two clocks",
        tuple(f"tests/core/test_event_time.py::test_windows_keep_the_column_that_they_go_by[more{n}]" for n in (0, 1)),
        Edit("core/planning/blocked.py", "in (*_PARTS, _CLOCK, _ORDER):", "in (*_PARTS, _ORDER):"),
        long=True,
    ),
    one(
        "verify takes the coverage of today for a late row's segment",
        "each upkeep would make verify wrong",
        (f"{FOLDS}test_coverage_that_is_merged_leaves_late_rows_with_their_segments",),
        Edit(
            "targets/proof/windowed.sql",
            "select from lockstep.segment v\n        where v.stream_id",
            "select from lockstep.coverage v\n        where v.stream_id",
        ),
        long=True,
    ),
    one(
        "a record from the future moves time",
        "each honest record would be late behind one with a fast clock",
        (f"{JUDGING}test_e1_a_record_from_the_future_makes_no_other_record_late",),
        Edit("targets/windows.sql", " filter (where {moment} <= {planned_at})", ""),
        Drop("drop trigger time_rises on lockstep.stream_time"),
        long=True,
    ),
    one(
        "a replay is judged by today's watermark",
        "windows that were shown would lose their records",
        (f"{JUDGING}test_e4_a_replay_judges_each_record_as_it_was_judged_at_first",),
        Edit(
            "targets/windows.sql",
            "case when j.offsets @> t._offset and j.admitted_by is null then j.watermark end",
            "(select e.watermark from lockstep.event_time e limit 1)",
        ),
        Drop("drop trigger late_by_judgement on lockstep.late"),
        long=True,
    ),
    one(
        "a window of no key counts",
        "its totals would belong to nobody",
        (f"{JUDGING}test_a_record_without_a_key_is_named_and_no_window_knows_it",),
        Edit("targets/windows.py", "if found.in_time + found.late != whole:", "if False:"),
        long=True,
    ),
    one(
        "a late record moves no time",
        "a partition that was silent would hold all windows",
        (f"{JUDGING}test_e1_a_late_record_moves_the_time_of_a_partition_that_was_silent",),
        Edit(
            "targets/windows.sql",
            "from added a group by a.stream_id",
            "from added a where not a.is_late group by a.stream_id",
        ),
        long=True,
    ),
    one(
        "a window that closes at the watermark is open",
        "what was called final would change",
        (f"{JUDGING}test_e3_a_window_that_closes_at_the_watermark_is_late_and_one_that_is_open_is_not",),
        Edit(
            "targets/windows.sql",
            "t.window_end <= (select",
            "t.window_end < (select",
        ),
        long=True,
    ),
    one(
        "a shown window is not rewritten",
        "a record within the lateness would count in no row",
        (f"{JUDGING}test_e5_a_record_within_the_lateness_is_the_next_revision_of_a_shown_window",),
        Edit("targets/windows.sql", "from met m where m.revision > 0", "from met m where false"),
    ),
    one(
        "the time of the fastest partition counts",
        "records of the slower partitions would be late",
        (f"{JUDGING}test_e2_the_watermark_is_the_least_time_of_the_partitions_and_never_falls",),
        Edit("ledger/windows/times.sql", "select min(greatest(t.opened_with", "select max(greatest(t.opened_with"),
        Drop("drop trigger watermark_rises on lockstep.event_time"),
        long=True,
    ),
    *(
        one(
            f"{name} is not asked",
            why,
            tuple(f"{REFUSES_FOLDING}[{name}-{case}]" for case in cases),
            Edit(FOLDING if name in {"folded_by_update", "folded_stays"} else BY_THE_SET, old, new),
            long=True,
        )
        for name, why, old, new, *cases in (
            (
                "folded_below_log_start",
                "a replay would find its records folded",
                "order by lower(c.offsets) desc limit 1)) is not true limit 1;",
                "order by lower(c.offsets) desc limit 1)) is null limit 1;",
                0,
            ),
            (
                "folded_unclaimed",
                "a replay under way would take out more than its records",
                "k.offsets && r.offsets limit 1;",
                "k.offsets && r.offsets and false limit 1;",
                0,
            ),
            (
                "folded_when_passed",
                "an open window would be folded with each reap",
                "and lockstep.window_passed(s.target, s.key, s.ends)) limit 1;",
                ") limit 1;",
                0,
            ),
            (
                "folded_by_update",
                "a batch would count records that it has not read",
                "where a.records = 0 or a.folded <> 0 limit 1;",
                "where false limit 1;",
                0,
                1,
            ),
            (
                "folded_stays",
                "a replay would count what was folded once more",
                "f.batch_id = k.expects_batch and f.stream_id = k.stream_id limit 1;",
                "f.batch_id = k.expects_batch and f.stream_id = k.stream_id and false limit 1;",
                0,
            ),
        )
    ),
    one(
        "folded_whole dropped from contribution",
        "a window's records would be others",
        tuple(f"{REFUSES_FOLDING}[folded_whole-{case}]" for case in range(7)),
        Drop("drop trigger folded_whole on lockstep.contribution"),
        long=True,
    ),
    one(
        "contribution_stays dropped from contribution",
        "a window's records would go without a replay",
        tuple(f"{REFUSES_FOLDING}[contribution_stays-{case}]" for case in range(3)),
        Drop("drop trigger contribution_stays on lockstep.contribution"),
        long=True,
    ),
    one(
        "folding takes what a replay may still read",
        "its upkeep would be refused by the database each time",
        (f"{FOLDS}test_nothing_is_folded_that_a_replay_may_take_out[still in the log]",),
        Edit("targets/folding.sql", " and upper(r.offsets) <= b.log_start", ""),
        Drop("drop trigger folded_whole on lockstep.contribution"),
        long=True,
    ),
    one(
        "folding keeps the totals of one contribution",
        "the window would have the records of all, and the totals of the newest",
        (f"{FOLDS}test_e9_contributions_below_log_start_become_one_for_each_closed_window_and_count_as_before",),
        Edit("targets/folding.sql", "then w.totals else", "then c.totals else"),
        long=True,
    ),
    one(
        "verify does not count what was folded",
        "each upkeep would make verify wrong",
        (f"{FOLDS}test_e9_contributions_below_log_start_become_one_for_each_closed_window_and_count_as_before",),
        Edit("targets/proof/windowed.sql", "sum(records - folded) as rows", "sum(records) as rows"),
        long=True,
    ),
    one(
        "an admission that was interrupted is forgotten",
        "its rows would stay late, and the same command would say that nothing is to be done",
        (f"{ADMITS}test_an_admission_whose_request_was_closed_has_another_request_and_no_other_decision",),
        Edit("steps/windows/admit.py", "if unread else [item]", "if unread or late[item] else [item]"),
        long=True,
    ),
    one(
        "an admission goes on with a replay that cannot be read again",
        "what the log still holds would wait for what it has lost",
        (f"{ADMITS}test_what_the_log_no_longer_holds_stays_late_and_does_not_hold_the_rest[admitted before]",),
        Edit("ledger/windows/reading.sql", "lower(o.offsets) < b.log_start)", "false)"),
        long=True,
    ),
    one(
        "the late rows of an erased key stay",
        "erase would say that the key is gone",
        (f"{ERASES}test_after_erase_no_window_and_no_late_row_holds_a_byte_of_the_key",),
        Edit("ledger/changes/erasures.py", '        cur.execute(Q["erase_late"], facts)\n', ""),
        long=True,
    ),
    one(
        "verify --deep counts the records of an erased key",
        "each erasure would make verify wrong",
        (f"{ERASES}test_after_erase_no_window_and_no_late_row_holds_a_byte_of_the_key",),
        Edit("steps/proof/verify_windows.py", "if gone else rows", "if False else rows"),
        long=True,
    ),
    one(
        "an erasure takes windows of other keys",
        "a window's revisions would begin anew",
        (
            f"{ERASES}test_the_database_lets_nothing_of_another_key_go_and_nothing_without_a_decision[window_state-window_stays]",
        ),
        Edit(ERASED, "and e.digest = lockstep.key_digest(", "and e.digest <> '-' || lockstep.key_digest("),
        long=True,
    ),
]
