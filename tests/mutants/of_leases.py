"""Lists mutants of leases, and of a commit in doubt."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

LEASES = "tests/ledger/test_leases.py::"
LEFT_BEHIND = (
    "tests/core/test_lanes.py::test_a_batch_that_another_process_has_left_is_finished_by_a_replay_and_by_no_preview"
)
PLANNING = "tests/core/test_planning.py::"
DOUBT = "tests/simulation/test_in_doubt.py::"
AWAY = f"{LEASES}test_a_lease_is_not_renewed_when"
OF_THE_NEWEST = "b.token = a.token and b.state = 'planned'\n\n-- name: wait_for_no_standby"

MUTANTS = [
    # Leases.
    one(
        "an older attempt renews its lease",
        "its batch is another attempt's",
        (f"{AWAY}[the batch has a newer token]",),
        Edit("ledger/batch/attempts.sql", OF_THE_NEWEST, "b.state = 'planned'\n\n-- name: wait_for_no_standby"),
        long=True,
    ),
    one(
        "an attempt that was closed renews its lease",
        "it holds nothing any more; with closed_once off, which hides it",
        (f"{AWAY}[the attempt was closed]",),
        Edit(
            "ledger/batch/attempts.sql",
            "%(nonce)s::uuid and a.closed_at is null\n  and b.batch_id",
            "%(nonce)s::uuid\n  and b.batch_id",
        ),
        Drop("drop trigger closed_once on lockstep.attempt"),
        long=True,
    ),
    one(
        "a lease on an abandoned batch is renewed",
        "its work is for nothing",
        (f"{AWAY}[the batch was abandoned]",),
        Edit("ledger/batch/attempts.sql", OF_THE_NEWEST, "b.token = a.token\n\n-- name: wait_for_no_standby"),
        long=True,
    ),
    one(
        "a lost lease is not noticed",
        "the orphan's Spark job goes on",
        f"{LEASES}test_a_holder_whose_batch_was_taken_away_is_called_once",
        Edit("steps/attempt/lease.py", "            if not ours:", "            if ours is None:"),
        long=True,
    ),
    one(
        "a renewal that waits for a lock is taken for a lost lease",
        "a commit or a plan holds the row for a moment",
        (f"{LEASES}test_a_renewal_that_waits_for_a_lock_or_a_database_is_still_the_holders[a lock]",),
        Edit("steps/attempt/lease.py", "continue  # somebody works", "ours = False  # somebody works"),
        long=True,
    ),
    one(
        "a database that is away is taken for a lost lease",
        "the lease runs out by itself",
        (f"{LEASES}test_a_renewal_that_waits_for_a_lock_or_a_database_is_still_the_holders[a database]",),
        Edit(
            "steps/attempt/lease.py",
            "runs out by itself if it stays away\n                continue",
            "runs out by itself if it stays away\n                ours = False",
        ),
        long=True,
    ),
    one(
        "a step that fails keeps its lease",
        "the next run would wait for nobody",
        f"{LEASES}test_a_block_that_fails_frees_its_lease_and_one_that_ends_keeps_it",
        Edit("steps/attempt/lease.py", "if kind is None and not self._hands_over:", "if not self._hands_over:"),
        long=True,
    ),
    one(
        "a step that fails hands its lease over",
        "the next run would wait ten minutes",
        f"{LEASES}test_a_block_that_fails_frees_its_lease_and_one_that_ends_keeps_it "
        f"{LEASES}test_a_hand_over_that_fails_frees_its_lease",
        Edit(
            "steps/attempt/lease.py",
            "(attempts.hand_over_lease if kind is None else attempts.free_lease)",
            "attempts.hand_over_lease",
        ),
        long=True,
    ),
    one(
        "a hand-over never takes longer",
        "two runs take a batch from each other for ever",
        f"{LEASES}test_what_is_handed_over_waits_longer_after_each_try[3]",
        Edit(
            "ledger/batch/attempts.sql",
            "%(lease)s * 2 ^ least(%(doublings)s, (",
            "%(lease)s * 1 ^ least(%(doublings)s, (",
        ),
        long=True,
    ),
    one(
        "a plan's lease never takes longer",
        "two runs take a batch from each other for ever",
        f"{LEASES}test_a_plan_that_hands_over_doubles_its_lease_with_each_try[True-2400]",
        Edit("ledger/batch/plan.sql", "%(lease)s * 2 ^ least(", "%(lease)s * 1 ^ least("),
        long=True,
    ),
    one(
        "a planner frees a batch of another",
        "its holder works on it",
        f"{LEASES}test_a_planner_lets_go_of_its_own_batch_and_of_no_others",
        Edit(
            "ledger/batch/attempts.sql",
            "state = 'planned' and owner = %(owner)s and lease_until",
            "state = 'planned' and lease_until",
        ),
        long=True,
    ),
    one(
        "a holder whose batch was taken away is called each time",
        "what stops its job would run again and again",
        f"{LEASES}test_a_holder_whose_batch_was_taken_away_is_called_once",
        Edit(
            "steps/attempt/lease.py",
            "self._on_lost()\n                break",
            "self._on_lost()\n                continue",
        ),
        long=True,
    ),
    one(
        "a holder that hands over keeps the planner's long lease",
        "a run whose process dies would be waited for that long",
        f"{LEASES}test_a_holder_that_hands_over_makes_a_long_lease_short_at_once",
        Edit(
            "steps/attempt/lease.py",
            "pause = 0.0 if self._hands_over else SECONDS_BETWEEN_RENEWALS",
            "pause = SECONDS_BETWEEN_RENEWALS",
        ),
        long=True,
    ),
    one(
        "nobody may take a batch over",
        "a person could not go on before the lease runs out",
        f"{PLANNING}test_take_over_and_retry_are_explicit",
        Edit(
            "core/planning/live.py",
            "batch.lease_is_live and not mine and not caller.take_over",
            "batch.lease_is_live and not mine",
        ),
        long=True,
    ),
    one(
        "a batch that fails by its data is tried for ever",
        "each run would fail, and no person would be asked",
        (f"{PLANNING}test_decisions[failed three times by data]",),
        Edit("core/planning/live.py", "if times >= FAILURES_THAT_BLOCK and not caller.retry:", "if times < 0:"),
        long=True,
    ),
    one(
        "a preview finishes the batch that another process has left",
        "it would count rows twice, and abandon a replay that has committed ranges",
        (f"{LEFT_BEHIND}[beside a fill]", f"{LEFT_BEHIND}[a preview]"),
        Edit("core/planning/requests.py", "if at.request.is_preview else Resume", "if False else Resume"),
        long=True,
    ),
    one(
        "an attempt leaves the sessions of older tasks",
        "they hold what its own tasks would wait for",
        "tests/ledger/test_parts.py::test_a_new_attempt_ends_a_task_of_the_older_one_that_still_has_its_session",
        Edit("steps/attempt/opening.py", "    end_older_tasks(cur, batch_id)\n", ""),
        long=True,
    ),
    # In doubt.
    one(
        "a commit asks for its connection under its role",
        "its start reads null there, and nobody could end a committer that hangs",
        f"{DOUBT}test_a_commit_records_its_own_connection_as_the_server_knows_it",
        Edit(
            "steps/batch/commit.py",
            "    with transaction(at.conn, None) as cur:\n        backend = ledger.my_backend(cur)",
            "    with transaction(at.conn, COMMITTER) as cur:\n        backend = ledger.my_backend(cur)",
        ),
        long=True,
    ),
    one(
        "an abandoned batch is tried again after a doubt",
        "a person has decided, and is told so",
        f"{DOUBT}test_a_batch_that_was_abandoned_meanwhile_is_not_committed_again",
        Edit(
            "steps/attempt/resolve.py",
            "if witness is None and batch.state != BatchState.PLANNED:",
            'if witness is None and batch.state == "":',
        ),
        long=True,
    ),
    one(
        "a database that is away answers a doubt",
        "only the commit row can tell",
        f"{DOUBT}test_a_database_that_is_away_is_no_answer",
        Edit(
            "steps/attempt/resolve.py",
            "except (LockTimeout, Unreachable) as no_answer",
            "except LockTimeout as no_answer",
        ),
        long=True,
    ),
    one(
        "when time is up a doubt is a no",
        "the commit may have arrived",
        f"{DOUBT}test_when_time_is_up_nothing_is_claimed",
        Edit(
            "steps/attempt/resolve.py",
            'raise Unreachable(f"whether batch {attempt.batch_id} was committed is not known: {no_answer}") from None',
            "return False",
        ),
    ),
    one(
        "a connection with the committer's old pid is ended",
        "pids are used again",
        f"{DOUBT}test_only_the_very_connection_that_commits_is_ended",
        Edit(
            "ledger/batch/commit.sql",
            "as t (pid, backend_start) using (pid, backend_start)\nwhere p.pid <> pg_backend_pid()",
            "as t (pid, backend_start) using (pid)\nwhere p.pid <> pg_backend_pid()",
        ),
        long=True,
    ),
    one(
        "a committer that nobody listens to keeps its lock",
        "the batch would stand still until its session ends by itself",
        f"{DOUBT}test_a_committer_that_nobody_listens_to_is_ended_and_gives_its_lock_back",
        Edit(
            "steps/attempt/resolve.py",
            "                with suppress(Unreachable):\n                    _end_committer(at.dsn, attempt)\n",
            "                pass\n",
        ),
        long=True,
    ),
    one(
        "a doubt is always a yes",
        "what nobody committed would be told as committed",
        f"{DOUBT}test_a_committer_that_nobody_listens_to_is_ended_and_gives_its_lock_back",
        Edit("steps/attempt/resolve.py", "    return witness is not None\n", "    return True\n"),
        long=True,
    ),
]
