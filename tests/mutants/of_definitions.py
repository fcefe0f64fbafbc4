"""Lists mutants of definitions, versions and sessions: comparisons between two tasks, and asserted settings."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, Mutant, one

BETWEEN = "tests/simulation/test_definition_between_tasks.py::"
VERSIONS = "tests/simulation/test_versions_between_tasks.py::"
LEDGER = "tests/ledger/test_versions.py::"
SESSION = "tests/ledger/test_promises_of_a_session.py::"
DEPLOYED = f"{BETWEEN}test_a_deployment_between_two_tasks_ends_the_attempt_and_commits_nothing_of_it"
REFUSED = f"{BETWEEN}test_the_database_refuses_another_definition_with_the_code_out_of_play"
STOPPED = f"{VERSIONS}test_a_migration_between_two_tasks_stops_the_old_code_by_name"
MIGRATION = "ledger/migrations/0019_definitions_and_versions.sql"
COMPARED = "require_same_definition(cur, attempt, folder)\n"
OWN_RANGE = "tests/ledger/test_per_partition.py::test_a_tasks_role_changes_nothing_once_its_attempt_is_closed"
KEEPS = "tests/core/test_planning.py::test_a_pipeline_keeps_its_topic_and_target_for_good"
PROCESSES = "tests/core/test_documents_and_processes.py::"
WHOLE = "tests/ledger/test_whole_owners.py::"

MUTANTS: list[Mutant] = [
    one(
        "commit takes today's definition",
        "rows staged for one table would go to another",
        (f"{DEPLOYED}[commit-PerBatch-target]", f"{DEPLOYED}[commit-PerBatch-decode]"),
        Edit("steps/batch/commit_batch.py", f"    {COMPARED}", ""),
    ),
    one(
        "a delivery takes today's definition",
        "rows would reach a store before anybody compares",
        f"{DEPLOYED}[commit-Idempotent-target]",
        Edit("steps/batch/deliver.py", f"        {COMPARED}", ""),
        long=True,
    ),
    one(
        "validate takes today's definition",
        "rows would be judged by a suite that they were not staged under",
        f"{DEPLOYED}[validate-PerBatch-expectations]",
        Edit("steps/batch/validate.py", f"            {COMPARED}            totals", "            totals"),
        long=True,
    ),
    one(
        "a pipeline may change its target",
        "rows of one pipeline would lie in two tables",
        (f"{KEEPS}[another table]", f"{KEEPS}[another kind]"),
        Edit(
            "core/planning/blocked.py", '("topic", "target", "guarantee", "store")', '("topic", "guarantee", "store")'
        ),
        long=True,
    ),
    one(
        "a pipeline may change its topic",
        "its positions mean nothing in another topic",
        (f"{KEEPS}[another topic]",),
        Edit(
            "core/planning/blocked.py", '("topic", "target", "guarantee", "store")', '("target", "guarantee", "store")'
        ),
        long=True,
    ),
    one(
        "a pipeline may change its guarantee",
        "what was promised of older rows would not hold",
        (f"{KEEPS}[another guarantee]",),
        Edit("core/planning/blocked.py", '("topic", "target", "guarantee", "store")', '("topic", "target", "store")'),
        long=True,
    ),
    one(
        "a pipeline may change its store",
        "its rows would lie in two stores",
        (f"{KEEPS}[another store]",),
        Edit(
            "core/planning/blocked.py", '("topic", "target", "guarantee", "store")', '("topic", "target", "guarantee")'
        ),
        long=True,
    ),
    one(
        "committed_as_staged dropped",
        "a commit names the definition that its attempt was opened with",
        (
            f"{REFUSED}[commit-committed_as_staged]",
            f"{BETWEEN}test_a_task_that_carries_another_definition_commits_no_range",
        ),
        Drop("alter table lockstep.commit drop constraint committed_as_staged"),
        long=True,
    ),
    one(
        "judged_as_staged dropped",
        "a verdict names the definition that its attempt was opened with",
        f"{REFUSED}[validate-judged_as_staged]",
        Drop("alter table lockstep.verdict drop constraint judged_as_staged"),
        long=True,
    ),
    one(
        "the batch's lock does not ask for the version",
        "old code would go on in the middle of a run",
        (f"{STOPPED}[validate-PerBatch]", f"{LEDGER}test_each_lock_that_decides_asks_for_the_version"),
        Edit("ledger/batch/attempts.py", "    require_version(row.ledger_version)\n", ""),
        long=True,
    ),
    one(
        "the pipeline's lock does not ask for the version",
        "old loops would plan on a ledger that they do not know",
        f"{STOPPED}[plan-PerBatch]",
        Edit("ledger/batch/plan.py", "    require_version(row.ledger_version)\n", ""),
        long=True,
    ),
    one(
        "one_version lets everybody write",
        "released code that never asks would write into a newer ledger",
        f"{LEDGER}test_the_database_refuses_what_code_of_another_version_writes[commit-16]",
        Edit(MIGRATION, "if made_for <> found::text then", "if false then"),
        long=True,
    ),
    one(
        "a migration waits for nobody",
        "a commit that has compared versions would end behind the migration",
        f"{VERSIONS}test_a_migration_waits_for_whoever_decides_and_is_seen_by_the_next",
        Edit("ledger/roles.sql", "lock table lockstep.pipeline, lockstep.batch in exclusive mode;", "null;"),
        long=True,
    ),
    one(
        "the login's statement_timeout holds",
        "a long commit would be cancelled each time it is tried",
        f"{SESSION}test_a_bound_of_the_login_does_not_cut_off_a_transaction_of_ours[statement_timeout]",
        Edit("adapters/postgres.py", '"statement_timeout", "transaction', '"transaction'),
        long=True,
    ),
    one(
        "synchronous_commit is only looked at",
        "a reload would weaken a session that is under way",
        f"{SESSION}test_a_reload_of_the_servers_settings_does_not_weaken_a_living_session",
        Edit("adapters/postgres.py", "set_config('synchronous_commit', %s, false)", "%s"),
        long=True,
    ),
    one(
        "the client's encoding is what a login says",
        "each letter beyond ASCII would be stored as two others",
        tuple(
            f"{SESSION}test_text_is_stored_as_it_is_whatever_encoding_the_client_is_said_to_have[{each}]"
            for each in ("login", "address", "environment")
        ),
        Edit("adapters/connection/opened.py", '{"client_encoding": "UTF8"} | more', "more"),
        long=True,
    ),
    one(
        "floats have as many digits as a login says",
        "rows of the lake would hold other numbers than their records",
        f"{SESSION}test_floats_and_bytes_are_read_as_they_are_whatever_the_login_says",
        Edit("adapters/connection/opened.py", '"set extra_float_digits = 1", ', ""),
        long=True,
    ),
    one(
        "a database of any encoding is let in",
        "a text would be refused there, or stored as another one",
        f"{SESSION}test_a_database_that_does_not_hold_every_text_is_refused[LATIN1]",
        Edit("adapters/postgres.py", 'if found.encoding != "UTF8":', 'if found.encoding == "none":'),
        long=True,
    ),
    one(
        "a session without triggers is let in",
        "no constraint trigger and no foreign key would run",
        f"{SESSION}test_a_session_whose_triggers_do_not_run_is_refused",
        Edit("adapters/postgres.py", 'if found.replication_role != "origin":', 'if found.replication_role == "none":'),
        long=True,
    ),
    one(
        "owners are taken in part",
        "code that mixes partitions would make some of an owner's rows twice",
        (
            f"{WHOLE}test_an_owner_whose_other_segment_lies_behind_the_cut_waits_for_the_next_plan",
            f"{WHOLE}test_owners_that_all_reach_behind_the_cut_are_looked_for_further_on",
        ),
        Edit("ledger/changes/requests.py", "if row.batch_id not in behind]", "if row.batch_id]"),
        long=True,
    ),
    one(
        "one_unit dropped",
        "an attempt would read the rest of a batch as a whole, and could never commit it",
        tuple(
            f"tests/ledger/test_per_partition.py::test_no_attempt_takes_a_batch_as_a_whole_of_which_a_range_is_committed[{act}]"
            for act in ("insert", "update")
        ),
        Drop("drop trigger one_unit on lockstep.attempt"),
        long=True,
    ),
    one(
        "stage takes a batch under a definition that its plan would refuse",
        "a deployment between the two tasks would write into another table than the pipeline keeps for good",
        tuple(
            f"{BETWEEN}test_a_deployment_between_plan_and_stage_that_plan_would_refuse_opens_no_attempt[{guarantee}-target]"
            for guarantee in ("per batch", "per partition")
        ),
        Edit("steps/batch/stage.py", "        require_bound(cur, folder.pipeline, batch_id)\n", ""),
        long=True,
    ),
    one(
        "own_range dropped",
        "an executor's credentials could free the offsets of any batch",
        OWN_RANGE,
        Drop("drop trigger own_range on lockstep.claim"),
        long=True,
    ),
    one(
        "a host's name is enough",
        "two containers of one name would each think the other's process dead",
        f"{PROCESSES}test_of_another_container_with_the_same_host_name_nothing_is_known",
        Edit(
            "adapters/processes.py",
            " or parts[PARTS_OF_AN_OWNER:] not in ([], [boot_id(), _pid_namespace()]):",
            ":",
        ),
        long=True,
    ),
    one(
        "a process that hides is gone",
        "a lease would be taken from a living holder where /proc shows no processes of other users",
        f"{PROCESSES}test_a_process_that_does_not_show_itself_is_not_held_to_be_gone",
        Edit("adapters/processes.py", "UNKNOWN_START if _is_hidden(pid) else None", "None"),
        long=True,
    ),
    one(
        "an unknown start is another one",
        "where older code could see no start, each of its living holders would be gone",
        f"{PROCESSES}test_a_process_that_does_not_show_itself_is_not_held_to_be_gone",
        Edit(
            "adapters/processes.py",
            "(UNKNOWN_START not in {found, parts[2]} and found != parts[2])",
            "found != parts[2]",
        ),
        long=True,
    ),
    one(
        "a start is counted by the clock",
        "a clock that is set would make each living holder another process",
        "tests/dev/test_processes.py::test_the_identity_is_that_of_earlier_versions",
        Edit("adapters/processes.py", "return started - boot", "return started"),
        long=True,
    ),
    one(
        "a partition is made of the table itself",
        "a long reader would hold up the commit, and the commit every other reader",
        "tests/ledger/test_by_batch.py::test_a_reader_does_not_hold_up_a_commit_that_makes_a_partition",
        Edit(
            "ledger/migrations/0029_targets_have_an_owner.sql",
            "    execute format('alter table %s attach partition %s for values in (%s)', target, called, of_batch);\nend $$;",
            "    execute format('drop table %s', called);\n"
            "    execute format('create table %s partition of %s for values in (%s)', called, target, of_batch);\nend $$;",
        ),
        long=True,
    ),
]
