"""Mutants of what upkeep does to lake tables, and of what tells strangers."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, Mutant, one

CONSTRAINTS = "tests/ledger/test_constraints_of_lake.py::"
REFUSES = f"{CONSTRAINTS}test_a_constraint_of_the_lake_refuses_by_itself"
UNDECIDED = f"{CONSTRAINTS}test_offsets_with_pointer_refuses_upkeep_that_is_not_decided_and_prepared"
ELSEWHEN = f"{CONSTRAINTS}test_offsets_with_pointer_refuses_a_decision_and_a_step_of_another_transaction"
TAKEN_BACK = "tests/lake/test_strangers.py::test_a_table_that_is_taken_back_is_found_by_verify_and_stops_the_next_run"
DELETER = "tests/lake/test_strangers.py::test_who_deletes_a_row_is_named_behind_later_batches_and_upkeep"
UPKEEP = "tests/lake/test_upkeep.py::"
UNITS = "tests/lake/test_rewrite.py::"

MUTANTS: list[Mutant] = [
    one(
        "offsets_with_pointer dropped, beside upkeep",
        "a pointer would move without offsets, and nobody would have decided it",
        (f"{UNDECIDED}[undecided]", f"{UNDECIDED}[swept]", f"{ELSEWHEN}[decided]", f"{ELSEWHEN}[ended]"),
        Drop("drop trigger offsets_with_pointer on lockstep.lake_pointer"),
        long=True,
    ),
    one(
        "upkeep_ends_once dropped",
        "upkeep that was taken for dead would lead readers to files that are swept",
        (f"{REFUSES}[upkeep_ends_once-2]",),
        Drop("drop trigger upkeep_ends_once on lockstep.lake_upkeep"),
        long=True,
    ),
    one(
        "swept_when_ended dropped",
        "files of upkeep under way could be swept",
        (f"{REFUSES}[swept_when_ended-3]",),
        Drop("alter table lockstep.lake_upkeep drop constraint swept_when_ended"),
        long=True,
    ),
    one(
        "upkeep_is_told dropped",
        "a decision would not say which pointer it moves",
        (f"{REFUSES}[upkeep_is_told-8]",),
        Drop("alter table lockstep.decision drop constraint upkeep_is_told"),
        long=True,
    ),
    one(
        "a snapshot that readers were led to since then expires",
        "a reader of the kept days would lose its files",
        ("tests/core/test_lake_keeping.py::test_a_snapshot_expires_by_when_readers_were_led_away_from_it",),
        Edit("core/lake/keeping.py", "and until.get(snapshot, at) < before_ms", ""),
        long=True,
    ),
    one(
        "files of expired snapshots are deleted though others hold them",
        "rows would be lost",
        (f"{UNITS}test_only_files_that_no_kept_snapshot_holds_go",),
        Edit(
            "adapters/iceberg/expiry.py",
            "                left.discard(entry.data_file.file_path)",
            "                pass",
        ),
        long=True,
    ),
    one(
        "files that another writer changed are merged",
        "a row that was deleted would come back",
        (f"{UNITS}test_files_that_another_writer_took_out_are_not_merged",),
        Edit(
            "adapters/iceberg/rewrite.py",
            "if not all(each in tasks and not tasks[each].delete_files for each in gone):",
            "gone = [each for each in gone if each in tasks]\n    if not gone:",
        ),
        long=True,
    ),
    one(
        "a table that was led to older metadata is written",
        "rows of earlier batches would be missing, and nobody would hear of it",
        (f"{TAKEN_BACK}[of_older_metadata]",),
        Edit(
            "adapters/iceberg/history.py",
            "return sequence is not None and any(known[each] <= sequence for each in table.snapshots)",
            "return False",
        ),
        long=True,
    ),
    one(
        "our own moves are named beside those of others",
        "the login that deleted rows would be lost among commits",
        (DELETER,),
        Edit("ledger/lake/moves.sql", "order by p.id desc limit 3", "or true order by p.id desc limit 3"),
        long=True,
    ),
    one(
        "a step of upkeep that was left is a success in Airflow",
        "a table that was taken back would grow for good, and its DAG would be green",
        (f"{UPKEEP}test_the_task_merges_by_a_decision_of_its_run_skips_when_idle_and_fails_when_a_step_is_left",),
        Edit("airflow/upkeep/dag.py", "if left := [why for kept in found for why in kept.left]:", "if left := []:"),
        long=True,
    ),
]
