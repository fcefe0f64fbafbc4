"""Lists mutants of verify: what it compares, what it counts, and what it reports as compared."""

from __future__ import annotations

from mutants.mutant import Edit, one

APPEND = "tests/kafka/test_verify.py::"
KEYED = "tests/kafka/test_verify_keyed.py::"

MUTANTS = [
    one(
        "verify takes any definition",
        "promises would be proved over another, empty table",
        (f"{APPEND}test_a_definition_that_is_not_the_ledgers_is_refused[plain-another table]",),
        Edit("steps/verify.py", "    if changed:\n", "    if changed and not pipeline.name:\n"),
        long=True,
    ),
    one(
        "verify compares no values of appended rows",
        "a row that was changed in the target would pass",
        (f"{APPEND}test_deep_names_a_row_that_was_changed[a plain table]",),
        Edit("targets/decoded.sql", "(e._became <> all(%(rows)s) or {is_different})", "e._became <> all(%(rows)s)"),
        long=True,
    ),
    one(
        "verify takes the second row of a record",
        "a doubled row would pass where no index keeps rows apart",
        (f"{APPEND}test_deep_names_a_row_that_is_doubled_where_no_index_keeps_rows_apart",),
        Edit("steps/verify_append.py", "elif len(ordinals) > 1 and", "elif len(ordinals) > 2 and"),
        long=True,
    ),
    one(
        "verify compares no values of upserted rows",
        "a row that was changed in the target would pass",
        (f"{KEYED}test_deep_names_a_row_that_was_changed",),
        Edit("targets/decoded.sql", "not e._erased and {is_different}", "{is_different} and false"),
        long=True,
    ),
    one(
        "verify counts no keys",
        "a deleted row of an upserted table would pass",
        (f"{KEYED}test_plain_verify_counts_keys_by_the_effects_of_commits",),
        Edit(
            "ledger/verify.py",
            "return Check(name, row.expected == row.found, detail",
            "return Check(name, True, detail",
        ),
        long=True,
    ),
    one(
        "verify says contents where none were compared",
        "the last line would say more than was looked at",
        "tests/core/test_verification.py::test_a_check_that_says_nothing_of_what_it_proves_proves_nothing "
        "tests/core/test_verification.py::test_the_conclusion_names_every_target",
        Edit("core/verification.py", '"ledger" if against else "no"', '"ledger"'),
    ),
    one(
        "verify looks past rows of no stream",
        "a row that was put in by hand would pass",
        (f"{APPEND}test_what_was_spoiled_is_found[a row is of no stream]",),
        Edit("ledger/verify.sql", "(s.pipeline = %(pipeline)s or s.stream_id is null)", "s.pipeline = %(pipeline)s"),
        long=True,
    ),
]
