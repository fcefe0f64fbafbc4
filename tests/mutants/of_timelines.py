"""Lists mutants of the guards against a lost timeline, of the wait for a standby, and of `restored`."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

LINES = "tests/ledger/test_timelines.py::"
AWAY = "tests/crash/test_standby_away.py::"
SAID = "tests/cli/test_restored.py::"
STORES = "tests/stores/test_restored.py::"
EVIDENCE = "tests/ledger/test_restored_evidence.py::"

MUTANTS = [
    one(
        "the nonce is not compared in Python",
        "a number that was drawn again lets a stranger through, where the database does not look",
        f"{LINES}test_the_code_refuses_it_with_the_database_s_own_look_out_of_play",
        Edit("ledger/batch/attempts.py", "if nonce != attempt.nonce:", 'if nonce == "":'),
        long=True,
    ),
    one(
        "same_timeline dropped",
        "the nonce is a constraint, too",
        f"{LINES}test_the_database_refuses_a_commit_that_names_another_nonce",
        Drop("drop trigger same_timeline on lockstep.commit"),
        long=True,
    ),
    one(
        "nonce_once dropped",
        "an id that two attempts share tells nothing apart",
        f"{LINES}test_a_nonce_is_drawn_once",
        Drop("drop index lockstep.nonce_once"),
        long=True,
    ),
    one(
        "nonce_with_token dropped",
        "the fence changes as a whole, or not at all",
        f"{LINES}test_the_nonce_of_a_batch_changes_with_its_token_alone",
        Drop("drop trigger nonce_with_token on lockstep.batch"),
        long=True,
    ),
    one(
        "a staging table is named without the nonce",
        "rows of a lost timeline are staged for the attempt that has its number now",
        f"{LINES}test_rows_of_a_lost_timeline_do_not_reach_the_staging_of_a_number_that_was_drawn_again[append]",
        Edit(
            "core/staging.py",
            '["attempt", str(self.batch_id), str(self.token), *self._short]',
            '["attempt", str(self.batch_id), str(self.token)]',
        ),
        long=True,
    ),
    one(
        "any table of the attempt's numbers becomes a partition",
        "another timeline may have left it",
        f"{LINES}test_only_an_attempt_s_own_table_becomes_a_partition",
        Edit(
            "ledger/migrations/0018_timelines.sql",
            "lockstep.staging_name(a.batch_id, a.token, a.nonce) || '_')) then",
            "lockstep.staging_name(a.batch_id, a.token, null) || '_')) then",
        ),
        long=True,
    ),
    one(
        "a lost timeline renews a stranger's lease",
        "the stranger's batch is held by a process that cannot commit it",
        f"{LINES}test_a_lease_of_a_lost_timeline_is_not_renewed_and_its_failure_closes_no_stranger",
        Edit(
            "ledger/batch/attempts.sql",
            "and a.nonce is not distinct from %(nonce)s::uuid and a.closed_at is null\n  and b.batch_id",
            "and a.closed_at is null\n  and b.batch_id",
        ),
        long=True,
    ),
    one(
        "in doubt the nonce is not asked for",
        "a stranger's commit under the same number is told as one's own",
        f"{LINES}test_a_lost_timeline_in_doubt_is_not_told_that_a_stranger_s_commit_was_its_own",
        Edit(
            "steps/attempt/resolve.py",
            "if witness is not None or batch.token == attempt.token:",
            "if attempt.token == -1:",
        ),
        long=True,
    ),
    one(
        "a batch number is staged for any pipeline",
        "a restored ledger may have given it to another one",
        f"{LINES}test_a_batch_number_that_another_pipeline_has_now_is_not_staged",
        Edit("steps/attempt/opening.py", "if batch.pipeline != name:", 'if name == "":'),
    ),
    one(
        "a notice behind COMMIT is overlooked",
        "a wait for the standby that was cancelled is told as a commit",
        f"{AWAY}test_a_transaction_whose_standby_did_not_confirm_it_is_not_told_as_done",
        Edit("adapters/postgres.py", "if not notice.startswith(HARMLESS):", 'if notice == "":'),
        long=True,
    ),
    one(
        "an attempt of a lost timeline frees a stranger's lease",
        "the stranger's batch is taken from it while it works",
        f"{LINES}test_a_lease_of_a_lost_timeline_is_not_renewed_and_its_failure_closes_no_stranger",
        Edit(
            "ledger/batch/attempts.sql",
            "and nonce is not distinct from %(nonce)s::uuid and closed_at is null and lease_until > clock_timestamp()",
            "and closed_at is null and lease_until > clock_timestamp()",
        ),
        long=True,
    ),
    one(
        "the failure of a lost timeline closes a stranger's attempt",
        "the stranger's batch counts a failure that was none of its own",
        f"{LINES}test_a_lease_of_a_lost_timeline_is_not_renewed_and_its_failure_closes_no_stranger",
        Edit(
            "ledger/batch/attempts.sql",
            "fault = %(fault)s\nwhere batch_id = %(batch_id)s and token = %(token)s and nonce is not distinct from",
            "fault = %(fault)s\nwhere batch_id = %(batch_id)s and token = %(token)s and %(nonce)s is not distinct from",
        ),
        long=True,
    ),
    one(
        "a restore is said of another log",
        "its offsets mean nothing here",
        f"{SAID}test_another_log_is_refused_for_its_offsets_mean_nothing",
        Edit("steps/changes/restored.py", "    _refuse_another_log(broker, pipeline, streams)\n", ""),
        long=True,
    ),
    one(
        "a restore leaves no row",
        "each decision says who took it and why",
        f"{SAID}test_it_is_recorded_draws_past_what_was_seen_and_every_record_is_there_once",
        Edit(
            "steps/changes/restored.py",
            '        decisions.record(cur, pipeline.name, "restored", person, _detail(evidence))\n',
            "",
        ),
        long=True,
    ),
    one(
        "restored draws nothing past what it has seen",
        "the next attempt has a number that a lost one had",
        f"{SAID}test_numbers_never_go_back_when_it_is_said_twice",
        Edit("steps/changes/restored.py", "        ledger.pass_over(cur, evidence)\n", ""),
        long=True,
    ),
    one(
        "a store that is newer than its ledger is taken for a zombie's fence",
        "the run says superseded for ever, and names no way out",
        f"{STORES}test_before_it_is_said_the_store_s_newer_results_are_named_as_a_restore[warehouse]",
        Edit("steps/batch/deliver.py", "        _refuse_lost_timeline(at, delivery, newer)\n", ""),
        long=True,
    ),
    one(
        "restored is said where nothing was planned",
        "the decision would say that nothing is gone, and nothing was compared",
        f"{SAID}test_a_pipeline_that_was_never_planned_is_refused",
        Edit(
            "steps/changes/restored.py", "    if not streams:\n        raise", "    if streams is None:\n        raise"
        ),
        long=True,
    ),
    one(
        "results of other pipelines are evidence",
        "their batches would be told as gone, and numbers drawn past theirs",
        f"{EVIDENCE}test_results_of_another_pipeline_in_a_shared_store_are_no_evidence",
        Edit(
            "steps/changes/restored.py", "tuple(each for each in seen if each.stream_id not in others)", "tuple(seen)"
        ),
        long=True,
    ),
    one(
        "results of an attempt that was never opened are the ledger's own",
        "the lost timeline's values would stay, and nobody would be told",
        f"{EVIDENCE}test_an_attempt_that_the_ledger_never_opened_is_told_though_its_batch_is_known",
        Edit(
            "ledger/changes/restored.sql",
            "\n   or s.token is not null and not exists (\n"
            "        select 1 from lockstep.attempt a where a.batch_id = s.batch_id and a.token = s.token)",
            "",
        ),
        long=True,
    ),
    one(
        "restored passes over a token that a person names, and over none of the store's",
        "the store would refuse the next attempts as older ones",
        f"{EVIDENCE}test_what_is_drawn_next_lies_past_the_token_that_the_store_has_seen",
        Edit("steps/changes/restored.py", "max([past_token, *(each.token or 0 for each in own)])", "past_token"),
        long=True,
    ),
]
