"""Lists mutants of the digests of contents."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, Mutant, alone, one

CHANGED = ("staged_rows_are_changed", "staged_rows_disappear")
CONSTRAINT = "tests/ledger/test_constraints.py::test_a_constraint_refuses_by_itself"
FORGED = "tests/ledger/test_contents.py"
VERIFIED = "tests/ledger/test_verify_contents.py"
MIGRATION = "ledger/migrations/0020_contents.sql"
NEWER = "ledger/migrations/0077_ranges_looked_up_one_by_one.sql"  # the newest guard_contents
TYPES = f"{VERIFIED}::test_every_type_keeps_its_digest_from_staging_to_the_target"
UNLIKE = ("bigint-numeric", "text-character varying(9)", "text-uuid", "date-timestamp with time zone")

HASHED = "tests/ledger/test_row_hashes.py::"
AWAY = ("put in", "missing", "emptied", "moved")
FITTED = f"{HASHED}test_four_forged_rows_with_the_same_digests_are_found_by_their_sha256"

MUTANTS = [
    one(
        "rows are not compared with the SHA-256 that a decision keeps",
        "rows that were fitted to the digests would pass",
        (FITTED, *(f"{HASHED}test_each_changed_row_changes_its_segments_sha256[{each}]" for each in AWAY)),
        Edit("ledger/proof/row_hashes.py", "            if row.sha256 != sha256:", "            if not row.sha256:"),
        long=True,
    ),
    one(
        "the last of two hashes counts",
        "a second decision would make a forgery right",
        f"{HASHED}test_a_second_decision_with_another_sha256_is_wrong",
        Edit("ledger/proof/row_hashes.py", "        if sha256 != row.sha256:", "        if not row.sha256:"),
        long=True,
    ),
    one(
        "a batch is certified whose rows are not its own",
        "a certificate would be given for forged rows",
        FITTED,
        Edit(
            "steps/proof/certificate.py",
            "if changed := _rows_changed(cur, pipeline, batches, hashes):",
            "if changed := '':",
        ),
        long=True,
    ),
    one(
        "hashes_are_told dropped",
        "a decision would keep hashes of nobody's rows",
        tuple(
            f"{HASHED}test_the_database_refuses_hashes_that_do_not_say_of_what[{each}]"
            for each in ("nothing", "no target", "no columns", "no segment", "a short hash", "a text")
        ),
        Drop("alter table lockstep.decision drop constraint hashes_are_told"),
        long=True,
    ),
    alone(
        "staged contents are not compared",
        "digests",
        CHANGED,
        "the values that were staged are the values that are published",
        Edit("ledger/staging/contents.py", "        if was != now:", "        if was is None:"),
        long=True,
    ),
    alone(
        "contents_unchanged dropped",
        "contents_unchanged",
        CHANGED,
        "the database compares the digests of a commit, too",
        Drop("drop trigger contents_unchanged on lockstep.commit"),
        long=True,
    ),
    Mutant(
        "a commit needs no digest",
        "a commit without digests could never be proved",
        (Edit(NEWER, "where u.rows_digest is null or u.rejects_digest is null limit 1", "where false limit 1"),),
        (f"{CONSTRAINT}[contents_known-0]", f"{CONSTRAINT}[contents_known-1]"),
        long=True,
    ),
    one(
        "a row's number is the record's own hash",
        "the hash of a record is linear: values that change places keep the sum",
        f"{VERIFIED}::test_each_pair_of_rows_that_exchange_a_value_is_found",
        Edit(
            "ledger/staging/digests.sql",
            "hashint8extended(hash_record_extended(row(t._stream, t._offset, t._ordinal, {deleted} {values}), 0), {place})",
            "hash_record_extended(row(t._stream, t._offset, t._ordinal, {deleted} {values}), {place})",
        ),
        long=True,
    ),
    one(
        "a zero has the number of a null",
        "a float's zero and a decimal's NaN hash as nothing does",
        TYPES,
        Edit("ledger/staging/digests.py", ", t.{0}, t.{0} is null", ", t.{0}"),
        long=True,
    ),
    one(
        "rows keep their number whatever their types",
        "only some casts keep a value's hash; of other tables the rows themselves are looked at",
        tuple(f"{VERIFIED}::test_types_hash_alike_where_a_value_keeps_its_number[{types}-False]" for types in UNLIKE),
        Edit("ledger/staging/digests.py", "return bool(digits and (other", "return bool(not digits or (other"),
        long=True,
    ),
    one(
        "a trigger's rows are taken for the staged ones",
        "a trigger of the table may insert other values than were staged",
        f"{VERIFIED}::test_values_that_a_trigger_of_the_table_makes_are_the_committed_ones",
        Edit("targets/proof/published.py", " and not _may_rewrite(cur, target)", ""),
        long=True,
    ),
    one(
        "rejects are not compared",
        "a reject's bytes and reason are published as well",
        f"{FORGED}::test_rejects_forged_in_staging_are_refused",
        Edit("ledger/staging/contents.py", '("rejects", row.rejected, row.rejects_digest, found.rejects),', ""),
        Edit(NEWER, "(p.rows, p.rejects) <>", "(p.rows, u.rejects_digest) <>"),
        long=True,
    ),
    one(
        "verify compares no rows",
        "a row that was changed in the target is found",
        f"{VERIFIED}::test_only_the_changed_batch_and_stream_is_named",
        Edit(
            "ledger/proof/verify_contents.sql",
            "  and c.target_digest <> coalesce(f.digest, 0)",
            "  and c.target_digest <> c.target_digest",
        ),
        long=True,
    ),
]
