"""Lists mutants of the steps: locks, answers, leases, staging and the lanes."""

from __future__ import annotations

from mutants.mutant import ALONE, Drop, Edit, alone, one

STEPS = "tests/simulation/test_step_by_step.py::"
LOCK_BATCH = "from lockstep.batch where batch_id = %(batch_id)s for no key update\n\n-- name: newest_attempt"
LOST_ACK = "the_acknowledgement_is_lost"


MUTANTS = [
    one(
        "the fence is read without the lock",
        "else an attempt is opened between the look and the commit",
        f"{STEPS}test_the_fence_is_read_under_the_batchs_row_lock "
        f"{STEPS}test_a_commit_that_is_still_on_its_way_cannot_arrive_once_the_answer_was_no",
        Edit("ledger/batch/attempts.sql", LOCK_BATCH, LOCK_BATCH.replace(" for no key update", "")),
        long=True,
    ),
    one(
        "an expectation that Great Expectations does not know is left out",
        "a misspelt one would never be asked, and its batches pass",
        "tests/kafka/test_quarantine.py::"
        "test_an_expectation_that_does_not_exist_refuses_the_batch_and_is_never_left_out",
        Edit("steps/batch/expectations.py", "missing = unknown_types(given)", "missing: list[str] = []"),
        Edit("steps/batch/expectations.py", "if len(violating) != len(", "if 0 > len("),
        long=True,
    ),
    one(
        "plan decides without the lock",
        "two planners would decide on the same positions",
        f"{STEPS}test_a_plan_is_made_under_the_pipelines_row_lock",
        Edit(
            "ledger/changes/forgotten.sql", "where name = %(pipeline)s for no key update", "where name = %(pipeline)s"
        ),
        long=True,
    ),
    one(
        "the commit is two transactions",
        "rows without offsets can be seen, and stay when the process dies",
        f"{STEPS}test_a_process_that_dies_in_the_commit_leaves_nothing_to_be_seen[commit.published] "
        f"{STEPS}test_a_process_that_dies_in_the_commit_leaves_nothing_to_be_seen[commit.ledger_written]",
        Edit(
            "steps/batch/commit_batch.py",
            'reach("commit.published")',
            'cur.connection.commit()\n    reach("commit.published")',
        ),
        long=True,
    ),
    one(
        "retried without asking, its own commit not looked for",
        "what is committed is then told as superseded",
        f"{ALONE}[{LOST_ACK}-asks_the_witness] {ALONE}[{LOST_ACK}-finds_its_own]",
        Edit("steps/batch/commit.py", "if not was_committed(at, attempt):", "if at.dsn:"),
        Edit(
            "steps/batch/commit_batch.py",
            "if batch.state == BatchState.COMMITTED and ledger.committed_by(cur, attempt.batch_id) == attempt:",
            'if batch.state == "never":',
        ),
    ),
    alone(
        "retried without asking",
        "asks_the_witness",
        (LOST_ACK,),
        "the commit row answers, not the hope that trying again is harmless",
        Edit("steps/batch/commit.py", "if not was_committed(at, attempt):", "if at.dsn:"),
        long=True,
    ),
    alone(
        "its own commit is not looked for",
        "finds_its_own",
        (LOST_ACK,),
        "a commit tried again finds itself committed",
        Edit(
            "steps/batch/commit_batch.py",
            "if batch.state == BatchState.COMMITTED and ledger.committed_by(cur, attempt.batch_id) == attempt:",
            'if batch.state == "never":',
        ),
        long=True,
    ),
    one(
        "pg_xact_status is trusted",
        "it answers for a transaction, and not for this batch",
        f"{STEPS}test_a_commit_that_never_arrived_is_made_by_the_same_attempt "
        f"{STEPS}test_a_commit_that_is_still_on_its_way_cannot_arrive_once_the_answer_was_no",
        Edit(
            "steps/attempt/resolve.py",
            "witness = ledger.committed_by(cur, attempt.batch_id)",
            'cur.execute("select pg_xact_status(xmin::text::xid8) from lockstep.batch")\n'
            '            witness = attempt if cur.fetchone()[0] == "committed" else None',
        ),
        long=True,
    ),
    one(
        "in doubt without the lock",
        "a COMMIT that is on its way arrives after the answer was no",
        f"{STEPS}test_a_commit_that_is_still_on_its_way_cannot_arrive_once_the_answer_was_no",
        Edit(
            "steps/attempt/resolve.py",
            "batch = attempts.lock_batch(cur, attempt.batch_id)",
            'cur.execute("select state, token, nonce::text from lockstep.batch where batch_id = %s", (attempt.batch_id,))\n'
            "            batch = cur.fetchone()",
        ),
        long=True,
    ),
    one(
        "whoever committed, it was me",
        "committed by another attempt is another answer",
        f"{STEPS}test_an_attempt_is_told_when_another_has_committed",
        Edit(
            "steps/attempt/resolve.py",
            "if witness is not None and witness.token != attempt.token:",
            "if attempt.token == -1:",
        ),
        Edit(
            "steps/attempt/resolve.py",
            "if witness is not None or batch.token == attempt.token:",
            "if attempt.token == 0:",
        ),
        long=True,
    ),
    alone(
        "except: pass around the commit",
        "target_key",
        ("a_row_is_there_already",),
        "told committed, and it is not",
        Edit(
            "steps/batch/commit.py",
            "except Unreachable as away:\n            why = away.message\n            if not was_committed(at, attempt):",
            "except Exception as away:\n            why = str(away)\n            if not at.dsn:",
        ),
        long=True,
    ),
    alone(
        "a superseded attempt is tried again",
        "fence",
        ("a_zombie_commits",),
        "it ends at once and says so, or two attempts supersede each other for ever",
        Edit(
            "steps/batch/commit.py",
            "from lockstep.core.errors import CoverageMoved, LockTimeout, Refusal, Unreachable",
            "from lockstep.core.errors import CoverageMoved, LockTimeout, Refusal, Superseded, Unreachable",
        ),
        Edit("steps/batch/commit.py", "except LockTimeout as", "except (LockTimeout, Superseded) as"),
        long=True,
    ),
    one(
        "an older try supersedes a newer one",
        "two copies of one task would take turns for ever",
        f"{STEPS}test_an_older_try_of_a_task_never_supersedes_a_newer_one",
        Edit(
            "steps/attempt/opening.py",
            "return bool((newest.try_number or 0) > (task_run.try_number or 0))",
            "return False",
        ),
        long=True,
    ),
    one(
        "anybody's attempt is picked up",
        "a run goes on with what it has staged itself",
        f"{STEPS}test_a_run_picks_up_its_own_attempt_and_nobody_elses",
        Edit(
            "steps/attempt/pick_up.py",
            "if (newest.dag_id, newest.dag_run_id) != (task_run.dag_id, task_run.dag_run_id):",
            "if not newest.owner:",
        ),
        long=True,
    ),
    one(
        "a lease is never over",
        "a batch whose holder died waits for ever",
        f"{STEPS}test_a_lease_keeps_others_out_and_is_over_some_day",
        Edit(
            "ledger/batch/plan.sql",
            "select *, lease_until > clock_timestamp() as is_live from lockstep.batch",
            "select *, true as is_live from lockstep.batch",
        ),
        long=True,
    ),
    one(
        "a lease keeps nobody out",
        "work is done twice",
        f"{STEPS}test_a_lease_keeps_others_out_and_is_over_some_day",
        Edit(
            "core/planning/live.py",
            "if batch.lease_is_live and not mine and not caller.take_over:",
            "if not batch.batch_id:",
        ),
        long=True,
    ),
    one(
        "staging is the batch's, not the attempt's",
        "a zombie's rows are among those of the newest attempt",
        f"{STEPS}test_what_a_zombie_still_copies_reaches_no_other_attempt",
        Edit(
            "core/staging.py",
            '["attempt", str(self.batch_id), str(self.token), *self._short]',
            '["attempt", str(self.batch_id)]',
        ),
        Edit("ledger/staging/staged.sql", "create table {table}", "create table if not exists {table}"),
        long=True,
    ),
    one(
        "rows of losing tries are appended",
        "a task may run twice, and one of the two counts",
        f"{STEPS}test_rows_of_a_try_that_lost_are_not_published[scene]",
        Edit("targets/rows.sql", "w on w.task = s._task", "w on w.task >= 0"),
        long=True,
    ),
    one(
        "rejects of a range that a replay has taken over are missed",
        "a pipeline whose replay came between a range and the close of its batch would stand still",
        "tests/simulation/test_by_partition.py::test_a_batch_is_closed_although_a_replay_has_taken_its_ranges_over",
        Edit("steps/batch/validate.py", "if row.is_held and row.rejects", "if row.rejects"),
        long=True,
    ),
    one(
        "rejects that tasks have kept are not counted by validate",
        "a batch would be closed without its rejects",
        "tests/simulation/test_by_partition.py::test_a_batch_whose_rejects_are_gone_is_not_closed",
        Edit("steps/batch/validate.py", "if row.is_held and row.rejects_kept != row.rejected:", "if False:"),
        long=True,
    ),
    one(
        "reported rows are not counted by validate",
        "what tasks report is not what the database holds",
        f"{STEPS}test_staged_rows_that_the_tasks_did_not_report_are_refused",
        Edit("steps/batch/validate.py", "if counts != (total.rows, total.rejected):", "if not counts:"),
        long=True,
    ),
    one(
        "any share of rejects is taken",
        "a wrong schema sends a topic to the rejects",
        f"{STEPS}test_a_flood_of_rejects_is_not_committed "
        "tests/core/test_accounting.py::test_a_few_rejects_are_always_taken_and_a_flood_is_not",
        Edit("core/proof/accounting.py", "and rejected > max_share * delivered", "and rejected > delivered"),
        long=True,
    ),
    one(
        "a replay moves the position",
        "with the compare-and-set and no_gap off, too: they hide it",
        f"{STEPS}test_a_replay_leaves_the_positions_where_they_are",
        Edit("ledger/batch/commit.py", "if lane == Lane.LIVE:", "if lane:"),
        Edit("ledger/batch/commit.sql", " and s.position = lower(r.offsets)", ""),
        Drop("drop trigger no_gap on lockstep.stream"),
        long=True,
    ),
    one(
        "a replay is held against the position",
        "only the live lane has to do with it",
        f"{STEPS}test_a_replay_leaves_the_positions_where_they_are",
        Edit("ledger/batch/commit.py", "if lane == Lane.LIVE:", "if lane:"),
        long=True,
    ),
    one(
        "a preview keeps its rows",
        "it is to show the difference and to change nothing",
        f"{STEPS}test_a_preview_changes_no_row_and_no_coverage",
        Edit("steps/requests/preview.py", "at.conn.rollback()", "at.conn.commit()"),
        long=True,
    ),
]
