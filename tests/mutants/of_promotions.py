"""Mutants of what keeps a promoted transform alone from its offsets on, and a canary without erased rows."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

PURE = "tests/core/test_promotion.py::"
LEDGER = "tests/ledger/test_promoted.py::"
HOUSE = "tests/simulation/test_promoted_between_tasks.py::"
CLI = "tests/cli/test_promote.py::"
CANARY = "tests/kafka/test_canary.py::"
PROMOTED = "ledger/migrations/0038_promoted_transforms.sql"
UNNAMED = f"{LEDGER}test_the_database_refuses_a_promotion_that_does_not_name_its_transform"
BEGINS = f"{PURE}test_no_live_batch_begins_or_goes_on_under_another_transform"
OTHER = f"{PURE}test_a_folder_with_another_transform_is_blocked_with_both_names"

MUTANTS = [
    one(
        "promoted_alone dropped",
        "a worker with an older folder would make rows behind the promotion",
        f"{LEDGER}test_the_database_refuses_another_transform_with_the_code_out_of_play",
        Drop("drop trigger promoted_alone on lockstep.commit"),
        long=True,
    ),
    one(
        "promote_is_told dropped",
        "a promotion would name no transform, and end every commit",
        (f"{UNNAMED}[nothing]", f"{LEDGER}test_the_database_refuses_a_promotion_that_begins_nowhere"),
        Drop("alter table lockstep.decision drop constraint promote_is_told"),
        long=True,
    ),
    one(
        "withdrawn_is_promoted dropped",
        "a withdrawal would be recorded of nothing, and a promotion without its offsets",
        f"{LEDGER}test_the_database_withdraws_nothing_that_is_not_promoted",
        Drop("drop trigger withdrawn_is_promoted on lockstep.decision"),
        long=True,
    ),
    one(
        "the offsets of a promotion are whatever the client says",
        "the record of where a transform begins would be a claim",
        f"{LEDGER}test_the_database_writes_down_the_offsets_itself_whatever_it_is_told",
        Edit(PROMOTED, "jsonb_build_object('from', stands)", "'{}'::jsonb"),
        long=True,
    ),
    one(
        "a promotion does not wait for a commit under way",
        "the other transform would commit offsets behind those that were recorded",
        f"{LEDGER}test_a_promotion_waits_for_a_commit_under_way",
        Edit(PROMOTED, "order by b.batch_id for no key update", "order by b.batch_id"),
        long=True,
    ),
    one(
        "a commit does not look for a promotion",
        "the run would end with an error of the database, not with the next command",
        (f"{HOUSE}test_a_validated_attempt_of_another_transform_brings_nothing_anywhere[PerBatch]",),
        Edit("steps/batch/commit_batch.py", "        require_promoted(cur, attempt, folder)\n", ""),
        long=True,
    ),
    one(
        "a delivery does not look for a promotion",
        "rows of the other transform would reach a store elsewhere, and their offsets would not follow",
        f"{HOUSE}test_a_store_elsewhere_is_given_nothing_that_the_offsets_would_not_follow",
        Edit("steps/batch/deliver.py", "        require_promoted(cur, attempt, folder)\n", ""),
        long=True,
    ),
    one(
        "a range that a promotion refuses is an error of the data",
        "a batch would be said to fail by its records",
        f"{HOUSE}test_a_task_that_commits_its_own_range_is_refused_by_the_database",
        Edit("ledger/batch/ranges.py", "constraint_name != PROMOTED", 'constraint_name != ""'),
        long=True,
    ),
    one(
        "a preview waits for the promoted transform",
        "nobody could see what an edited transform would change",
        f"{LEDGER}test_fills_and_replays_wait_too_and_a_preview_does_not",
        Edit("steps/requests/plan_request.py", "None if asked.is_preview else ", ""),
        long=True,
    ),
    one(
        "a plan does not look for a promotion",
        "each run would read a batch that cannot commit",
        (f"{BEGINS}[a new batch]",),
        Edit("core/planning/live.py", "        situation.not_deployed\n        or changed", "        changed"),
        long=True,
    ),
    one(
        "any transform is taken for the promoted one",
        "each run would read a batch that cannot commit",
        (f"{OTHER}[one blank more]",),
        Edit("core/changes/promotion.py", "transform_digest(source) == promotion.transform", "promotion.transform"),
        long=True,
    ),
    one(
        "figures of another file's canary are taken",
        "a decision would be recorded with counts of something else",
        (f"{PURE}test_a_document_that_is_not_of_this_file_gives_no_figures[another file]",),
        Edit("core/changes/canary.py", "    if tried != definition:", '    if tried == "":'),
        long=True,
    ),
    one(
        "a canary knows no erasures",
        "rows of an erased person would be shown",
        (
            f"{CANARY}test_rows_of_an_erased_key_are_on_neither_side_and_later_ones_are",
            f"{CANARY}test_an_erasure_by_the_tables_former_owner_holds_in_a_canary",
        ),
        Edit(
            "steps/requests/rehearse.py",
            "        canary.keep_out(cur, folder.pipeline.name, past, {topic: window_id(topic) for topic in past.logs})\n",
            "",
        ),
        long=True,
    ),
    one(
        "the promoted file is not installed",
        "the next run would be blocked by the very command that promoted it",
        f"{CLI}test_the_whole_answer_as_json_with_what_a_canary_counted",
        Edit("adapters/folders.py", "        new.replace(place)\n", ""),
        long=True,
    ),
]
