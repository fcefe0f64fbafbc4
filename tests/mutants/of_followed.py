"""Lists mutants of a target that follows: what the registry tells, and what an approval in Airflow runs."""

from __future__ import annotations

from mutants.mutant import Edit, one

APPROVED = "tests/dags/test_migrated_by_approval.py::test_"
SHOWN = f"{APPROVED}a_digest_that_is_not_the_shown_one_is_refused_at_each_step"
FIELDS = "tests/formats/test_latest_schema.py::test_"

MUTANTS = [
    one(
        "a run asks for changes that were not shown",
        "the approver would see other statements than the asker",
        f"{SHOWN}[asked]",
        Edit(
            "airflow/history/tables.py",
            "    if asked.digest is not None:\n        found",
            "    if False:\n        found",
        ),
        long=True,
    ),
    one(
        "an approval is not held against what is proposed now",
        "the ledger would say that somebody has approved what nobody saw",
        f"{SHOWN}[approved]",
        Edit("steps/requests/history.py", "    if approval.asked.digest is not None:\n", "    if False:\n"),
        long=True,
    ),
    one(
        "a table is changed without an approval",
        "whoever may trigger a run would alter tables alone",
        (f"{APPROVED}a_form_that_contradicts_itself_is_refused[no approval]",),
        Edit(
            "core/planning/history.py",
            "(migrates and does,",
            "(migrates and asked.mode not in RunMode,",
        ),
        long=True,
    ),
    one(
        "a column that is wider than its field is widened to it",
        "the line to paste would make a table narrower",
        f"{FIELDS}avro_that_grows_loses_narrows_and_widens",
        Edit(
            "core/changes/registered_fields.py",
            "return wider(first, second) == second",
            "return wider(first, second) == first",
        ),
        long=True,
    ),
    one(
        "a lost field is no difference",
        "new rows would hold null, and nobody would know why",
        f"{FIELDS}a_lost_field_of_the_key_says_that_records_are_rejects",
        Edit(
            "core/changes/registered_fields.py",
            "found = tuple(each for each in shifts if each is not None)",
            "found = tuple(each for each in shifts if each is not None and each.kind != Shift.LOST)",
        ),
        long=True,
    ),
]
