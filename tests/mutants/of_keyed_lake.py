"""Mutants of what keeps an upserted table of the lake like one of the database."""

from __future__ import annotations

from mutants.mutant import Edit, Mutant, one

COMMITS = "tests/lake/keyed/test_commits.py::"
PARTING = "tests/lake/keyed/test_parting.py::"
PROOF = "tests/lake/keyed/test_proof.py::"

MUTANTS: list[Mutant] = [
    one(
        "a real goes to the lake as its text",
        "a key of a column that was widened would not be found again, and have two rows",
        ("tests/lake/test_widened.py::test_a_key_is_found_again_in_a_column_that_was_widened",),
        Edit("targets/lake/spool.py", '"t.{}::float8" if name in wide else "t.{}"', '"t.{}"'),
        long=True,
    ),
    one(
        "what was rehearsed is not compared with what commits",
        "a key would stand in Postgres and not in the lake",
        (f"{COMMITS}test_a_deletion_that_is_forgotten_between_preparation_and_commit_is_prepared_anew",),
        Edit("steps/lake/keyed.py", "if state_of_copy(cur, pipeline.targets[place].table) != made.state:", "if False:"),
        long=True,
    ),
    one(
        "a file of keys is not compared with what was written",
        "a store that loses keys would be believed",
        (f"{COMMITS}test_a_file_of_keys_that_the_store_gives_back_otherwise_is_refused",),
        Edit("steps/lake/keyed.py", "if held != stay.held:", "if False:"),
        long=True,
    ),
    one(
        "the rest of a file is not read back",
        "a store that loses rows of older batches would be believed",
        (f"{PARTING}test_a_rest_that_the_store_does_not_give_back_is_refused",),
        Edit("adapters/iceberg/keyed.py", "if self._sums_of(path) != sums:", "if False:"),
        long=True,
    ),
    one(
        "rows of replayed offsets stay in the lake",
        "what today's code makes no more would stand for ever",
        (f"{PARTING}test_rows_of_replaced_offsets_go_whatever_their_key",),
        Edit(
            "adapters/iceberg/keyed.py",
            "return pc.or_(held, any_of(replaced, rows)) if replaced else held",
            "return held",
        ),
        long=True,
    ),
    one(
        "equality deletes are left to pyiceberg",
        "the message would blame the metadata, and name no file",
        (f"{PARTING}test_equality_deletes_of_another_writer_are_refused_by_the_name_of_the_file",),
        Edit("adapters/iceberg/within.py", "if file.content == DataFileContent.EQUALITY_DELETES]", "if False]"),
        long=True,
    ),
    one(
        "the account of a keyed table is not compared",
        "a value that another writer changes would be found by nobody before verify --deep",
        (f"{PROOF}test_a_changed_value_a_lost_key_and_one_that_came_back_are_found_and_a_replay_heals",),
        Edit("steps/lake/verify_keys.py", "for key in differ:", "for key in ():"),
        long=True,
    ),
    one(
        "a replay leaves its segments in the account",
        "what a stranger has deleted would be missing from it for ever",
        (f"{PROOF}test_a_changed_value_a_lost_key_and_one_that_came_back_are_found_and_a_replay_heals",),
        Edit("ledger/lake/keyed.sql", "k.batch_id = %(batch_id)s and k.expects = 'batch'", "false"),
        long=True,
    ),
    one(
        "a column gets the bounds that some parts of its file have",
        "a long key would stand twice, and readers would skip rows",
        (f"{PARTING}test_a_text_that_has_no_bounds_hides_no_row_of_its_file[long]",),
        Edit("adapters/iceberg/within.py", "not bounds.has_min_max or ", ""),
        long=True,
    ),
    one(
        "an upper bound is cut at half a surrogate pair",
        "one record would stop its pipeline for ever",
        (f"{PARTING}test_a_text_that_has_no_bounds_hides_no_row_of_its_file[before surrogates]",),
        Edit("adapters/iceberg/within.py", " or BEFORE_SURROGATES in str(bounds.max)", ""),
        long=True,
    ),
]
