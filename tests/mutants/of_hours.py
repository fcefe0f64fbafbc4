"""Lists mutants of the hours: they would announce an incomplete hour, or offsets twice or never."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

CORE = "tests/core/test_hours.py::"
LEDGER = "tests/ledger/test_hours.py::"
AGAIN = "tests/ledger/test_hours_told_again.py::"
CONSTRAINT = "tests/ledger/test_constraints.py::test_a_constraint_refuses_by_itself"

MUTANTS = [
    one(
        "a skipped stretch completes an hour",
        "what was skipped can still be read, and the table lacks it",
        f"{CORE}test_a_loss_completes_an_hour_and_a_skip_does_not",
        Edit(
            "core/planning/hours.py",
            "each.kind == CoverageKind.SKIPPED and not stream.gone",
            'each.kind == "nothing" and not stream.gone',
        ),
        long=True,
    ),
    one(
        "an empty hour is complete before what lies below it",
        "complete through is said of everything before, too",
        f"{CORE}test_nothing_in_an_hour_completes_it_only_when_all_before_it_is_committed",
        Edit("core/planning/hours.py", "if stream.position < end:", "if at < end and stream.position < end:"),
        long=True,
    ),
    one(
        "an hour begins at its boundary, not where the one before it ended",
        "offsets would be in two hours, or in none",
        f"{CORE}test_hours_tile_whatever_the_boundaries_are",
        Edit(
            "core/planning/hours.py",
            "first = stream.offset if stream.offset is not None else",
            "first = stream.start_offset if False else",
        ),
        long=True,
    ),
    one(
        "an hour is over although a transaction is open",
        "its records become visible when the hour was told",
        f"{LEDGER}test_an_open_transaction_keeps_an_hour_from_being_over",
        Edit(
            "steps/batch/hours.py",
            "== ends[p]) and self._high[p] > ends[p]:",
            "== ends[p]) and self._high[p] < ends[p]:",
        ),
        long=True,
    ),
    one(
        "hour_is_covered dropped",
        "an hour that is not committed would be history",
        f"{CONSTRAINT}[hour_is_covered-0] {CONSTRAINT}[hours_tile-0]",
        Drop("drop trigger hour_is_covered on lockstep.hour_offsets"),
        long=True,
    ),
    one(
        "an hour is over by the caller's clock alone",
        "its end would be looked up before its last records came, once and for all",
        f"{LEDGER}test_an_hour_that_is_over_for_the_caller_alone_is_not_over_and_its_end_is_not_looked_up",
        Edit("steps/batch/hours.py", "now = min(now, ledger.clock(cur))", "ledger.clock(cur)"),
        long=True,
    ),
    one(
        "a replay is not noted: change_is_noted dropped from commit",
        "who reads by the hour would go on with rows that were replaced",
        f"{AGAIN}test_an_hour_is_told_again_once_a_replay_has_replaced_its_rows_and_its_neighbour_is_not[append]",
        Drop("drop trigger change_is_noted on lockstep.commit"),
        long=True,
    ),
    one(
        "an erasure is not noted: change_is_noted dropped from erased",
        "who reads by the hour would keep what was erased",
        f"{AGAIN}test_an_hour_is_told_again_once_an_erasure_has_taken_rows_out[append]",
        Drop("drop trigger change_is_noted on lockstep.erased"),
        long=True,
    ),
    one(
        "told_for_a_change dropped from hour_told",
        "revisions would have gaps, and an hour would be told again for nothing",
        tuple(f"{CONSTRAINT}[told_for_a_change-{case}]" for case in range(3)),
        Drop("drop trigger told_for_a_change on lockstep.hour_told"),
        long=True,
    ),
    one(
        "one_change dropped from hour_changed",
        "a change that nothing has made would be told",
        f"{CONSTRAINT}[one_change-0]",
        Drop("alter table lockstep.hour_changed drop constraint one_change"),
        long=True,
    ),
    one(
        "a telling waits for no change under way",
        "rows would change right behind the telling, and no revision would follow",
        f"{AGAIN}test_a_telling_waits_for_a_change_under_way",
        Edit(
            "ledger/migrations/0037_hours_told_again.sql",
            "perform pg_advisory_xact_lock(hashtextextended('lockstep.hours ' || new.pipeline, 0));",
            "perform 1;",
        ),
        long=True,
    ),
    one(
        "an hour that another run has told is told by this one, too",
        "an hour would be told twice without a failure",
        f"{AGAIN}test_a_task_that_died_tells_the_same_revision_again_and_another_run_tells_nothing",
        Edit("ledger/views/hours.py", "if newest and newest.told_by == told_by else None", "if newest else None"),
        long=True,
    ),
    one(
        "a try behind the commit of one task announces nothing",
        "nobody would hear of a batch whose task died before it announced it",
        ("tests/dags/one_airflow/test_one_task.py::test_a_try_behind_the_commit_of_one_task_announces_it",),
        Edit("airflow/one_task.py", "isinstance(planned.decision, Done) and is_retry", "False"),
        long=True,
    ),
]
