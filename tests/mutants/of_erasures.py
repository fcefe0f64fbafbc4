"""Lists mutants of erasing a key: what is removed, what stays out, and how verify treats it."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

ERASE = "tests/ledger/test_erase.py::"
PAGE = "tests/web/test_erased_record.py::"
VERIFIED = "tests/ledger/test_erase_verified.py::"
GUARDS = "tests/ledger/test_erase_guards.py::"
QUIET = "tests/ledger/test_values_in_no_log.py::test_what_a_target_refuses_is_printed_without_values_and_kept_with_them"
KEPT = "tests/ledger/test_reject_retention.py::"
GONE = f"{ERASE}test_after_erase_no_table_holds_a_byte_of_the_key_and_verify_deep_holds"
AGAIN = f"{ERASE}test_a_replay_does_not_bring_the_key_back"
ALONE = f"{ERASE}test_the_database_alone_refuses_an_attempt_from_before_the_erasure"
REFUSED = f"{VERIFIED}test_what_cannot_be_erased_whole_is_refused_and_nothing_is_changed"
STAGED = f"{ERASE}test_a_batch_that_has_staged_the_key_cannot_commit_it"
DECIDED = f"{GUARDS}test_an_erasure_without_the_decision_that_says_what_it_took_is_refused[None]"
LATER = f"{GUARDS}test_nothing_is_added_to_an_erasure_that_is_decided"
LINE = "ledger/migrations/0035_renamed_pipelines.sql"  # the newest line_of
MIGRATION = "ledger/migrations/0028_erasures.sql"
SAID = "ledger/migrations/0088_erased_previews.sql"  # the newest erase_said

MUTANTS = [
    one(
        "erasure_is_decided dropped",
        "what was erased is a decision of the chain",
        DECIDED,
        Drop("drop trigger erasure_is_decided on lockstep.erasure"),
        long=True,
    ),
    one(
        "erased_once dropped on erased",
        "a row that disappeared would be called erased later",
        f"{LATER}[rows]",
        Drop("drop trigger erased_once on lockstep.erased"),
        long=True,
    ),
    one(
        "erased_once dropped on erasure_bound",
        "an erasure would reach further than was decided",
        f"{LATER}[bounds]",
        Drop("drop trigger erased_once on lockstep.erasure_bound"),
        long=True,
    ),
    one(
        "erased_stays_out dropped",
        "an attempt from before the erasure has staged the key",
        ALONE,
        Drop("drop trigger erased_stays_out on lockstep.commit"),
    ),
    one(
        "erasure_keeps_no_key dropped",
        "the ledger would keep the key that it erased",
        f"{GUARDS}test_an_erasure_holds_a_digest_and_never_a_key",
        Drop("alter table lockstep.erasure drop constraint erasure_keeps_no_key"),
        long=True,
    ),
    one(
        "emptied_is_empty dropped",
        "a reject would be called empty that is not",
        f"{GUARDS}test_a_reject_that_lost_its_bytes_keeps_its_digest_and_has_no_bytes",
        Drop("alter table lockstep.reject drop constraint emptied_is_empty"),
        long=True,
    ),
    one(
        "rejects are emptied behind the decision",
        "a function of the owner would empty whatever it is asked to",
        (f"{GUARDS}test_no_reject_error_or_verdict_is_emptied_behind_its_decision[said]",),
        Edit(
            SAID,
            "line text[] := (select lockstep.line_of(pipeline) from lockstep.erasure where erasure_id = of_erasure);\nbegin\n"
            "    perform lockstep.guard_undecided(of_erasure);",
            "line text[] := (select lockstep.line_of(pipeline) from lockstep.erasure where erasure_id = of_erasure);\nbegin",
        ),
        long=True,
    ),
    one(
        "staged records of an erased key are published",
        "a replay would bring the key back",
        tuple(f"{AGAIN}[{kind}]" for kind in ("append", "by batch", "upsert", "accumulate", "several")),
        Edit(
            "ledger/staging/suppression.py",
            "    gone = suppress(cur, name, attempt, places)",
            "    gone: dict[Any, Any] = {}",
        ),
        long=True,
    ),
    one(
        "a task publishes records of an erased key",
        "a replay by partition would bring the key back",
        tuple(f"{AGAIN}[{kind}]" for kind in ("append per partition", "upsert per partition")),
        Edit(
            "ledger/staging/suppression.py",
            "its = Dropped([0])\n    for row in _drop(cur, table, columns):",
            "its = Dropped([0])\n    for row in _drop(cur, table, []):",
        ),
        long=True,
    ),
    one(
        "rows go straight into the table where keys were erased",
        "what is copied straight is never looked through",
        (f"{AGAIN}[append per partition]",),
        Edit("steps/ranges/task.py", "names = () if erased else straight(", "names = straight("),
        long=True,
    ),
    one(
        "the batch that staged the key is not abandoned",
        "it would stand in the way of the next one, and its staging holds the key",
        tuple(f"{STAGED}[{kind}]" for kind in ("append", "upsert")),
        Edit(
            "steps/changes/erase.py",
            "lock_and_abandon(cur, erasures.batches_under_way(cur, pipeline.name), person)",
            "[]",
        ),
        long=True,
    ),
    one(
        "staging of dead attempts is left",
        "it holds the key until somebody reaps",
        tuple(f"{STAGED}[{kind}]" for kind in ("append", "upsert")),
        Edit("steps/changes/erase.py", "held=reap(conn).held", "held=()"),
        long=True,
    ),
    one(
        "rejects are not erased",
        "their bytes hold the key",
        f"{GONE}[append]",
        Edit("steps/changes/erase.py", "    erasures.erase_rejects(cur, subject, erasure_id)\n", ""),
        long=True,
    ),
    one(
        "errors and verdicts are not erased",
        "they quote values",
        f"{VERIFIED}test_errors_and_verdicts_that_quote_the_key_lose_it_and_the_chain_holds",
        Edit("steps/changes/erase.py", "said = erasures.erase_said(cur, subject, erasure_id)", "said = 0"),
        long=True,
    ),
    one(
        "a preview keeps the rows of an erased key",
        "the page of the run would go on showing the person",
        f"{VERIFIED}test_what_a_preview_found_loses_its_rows_and_keeps_their_digest",
        Edit(
            SAID,
            "difference = jsonb_set(h.difference, '{samples}', '[]')",
            "difference = h.difference",
        ),
        long=True,
    ),
    one(
        "the ledger is not searched by its catalog",
        "a new table would keep the key unseen",
        f"{VERIFIED}test_a_table_that_nobody_thought_of_is_named_where_it_holds_the_key",
        Edit(
            "ledger/changes/search.py",
            "found += _in_table(cur, table, facts) if table.is_readable else [_unread(table)]",
            "pass",
        ),
        long=True,
    ),
    one(
        "the page of an erased record shows it",
        "an erased person would be read there as long as Kafka has the record",
        f"{PAGE}test_the_page_of_an_erased_offset_names_the_decision_and_asks_kafka_nothing",
        Edit(
            "web/pages/record_page.py",
            '    if found["erased"]:\n        return None,',
            "    if False:\n        return None,",
        ),
        long=True,
    ),
    one(
        "a record of an erased key is shown by its offset",
        "only the newest record of a key has left a row",
        f"{PAGE}test_a_record_whose_kafka_key_was_erased_is_not_shown",
        Edit("web/pages/record_page.py", "        if decision_id:", "        if False:"),
        long=True,
    ),
    one(
        "an XCom keeps the rows of a preview",
        "an erasure does not reach Airflow's database",
        "tests/dags/test_history_form.py::test_an_xcom_keeps_the_counts_of_a_preview_and_no_row",
        Edit(
            "airflow/history/showing.py",
            'for name, value in difference.items() if name != "samples"}',
            "for name, value in difference.items()}",
        ),
        long=True,
    ),
    one(
        "a reason may hold the key",
        "the chain keeps it for good",
        (f"{REFUSED}[append-call0-the reason holds the key]",),
        Edit("core/changes/erasure.py", "if pattern.search(text):", "if not text:"),
        long=True,
    ),
    one(
        "totals by another key are half erased",
        "what a person added to them cannot be told apart",
        (f"{REFUSED}[accumulate-call4-cannot be told apart]",),
        Edit(
            "core/changes/erasure.py",
            "isinstance(target, WithTotals) and column not in",
            "not target.table and column not in",
        ),
        long=True,
    ),
    one(
        "what was erased is not added to a digest",
        "verify would call every erasure a change",
        tuple(f"{GONE}[{kind}]" for kind in ("append", "by batch", "several")),
        Edit(
            "ledger/proof/verify_contents.sql",
            "  and c.target_digest <> coalesce(f.digest, 0) + coalesce(x.digest, 0)",
            "  and c.target_digest <> coalesce(f.digest, 0)",
        ),
        long=True,
    ),
    one(
        "erased rows are not added to a count",
        "verify would miss them",
        tuple(f"{GONE}[{kind}]" for kind in ("append", "by batch", "several", "append per partition")),
        Edit("ledger/proof/verify.sql", "coalesce(t.rows, 0) + coalesce(x.rows, 0)", "coalesce(t.rows, 0)"),
        long=True,
    ),
    one(
        "erased keys are not taken from a count",
        "verify would miss them",
        f"{GONE}[upsert]",
        Edit(
            "ledger/proof/verify.sql",
            "from lockstep.erased x where x.relation = %(target)s)",
            "from lockstep.erased x where false)",
        ),
        long=True,
    ),
    one(
        "erased contributions are not added to a count",
        "verify would miss them",
        f"{GONE}[accumulate]",
        Edit(
            "targets/proof/accumulated.sql",
            "coalesce(p.rows, u.rows) <> coalesce(c.rows, 0) + coalesce(x.rows, 0)",
            "coalesce(p.rows, u.rows) <> coalesce(c.rows, 0)",
        ),
        long=True,
    ),
    one(
        "the log's records of an erased row are missed",
        "verify --deep would call an erasure a loss",
        tuple(f"{GONE}[{kind}]" for kind in ("append", "by batch")),
        Edit("steps/proof/verify_append.py", "if offset not in self._erased:", "if offset >= 0:"),
        long=True,
    ),
    one(
        "the newest record of an erased key is missed",
        "verify --deep would call an erasure a loss",
        tuple(f"{GONE}[{kind}]" for kind in ("upsert", "upsert per partition")),
        Edit("targets/proof/newest.sql", '    when n."Erased" then false\n', ""),
        long=True,
    ),
    one(
        "erased records are recomputed into totals",
        "verify --deep would call an erasure a loss",
        f"{GONE}[accumulate]",
        Edit("steps/proof/verify_totals.py", "if place not in gone]", "if place >= 0]"),
        long=True,
    ),
    one(
        "a reject that is read again has its bytes again",
        "a replay would bring the key back",
        tuple(f"{AGAIN}[{kind}]" for kind in ("append", "upsert", "accumulate")),
        Edit(
            "ledger/staging/suppression.py",
            '    _empty(cur, pipeline, _identifier(f"{STAGING_SCHEMA}.{attempt.table}"))\n',
            "",
        ),
        long=True,
    ),
    one(
        "bytes beside a transform are kept",
        "an expectation would make a reject of them",
        f"{ERASE}test_bytes_that_are_kept_beside_a_transform_go_with_their_rows",
        Edit("ledger/staging/suppression.py", "if gone and _exists(cur, raw):", "if not gone and _exists(cur, raw):"),
        long=True,
    ),
    one(
        "a certificate says nothing of what was erased since",
        "an auditor would take it for what is there",
        "tests/cli/test_erase.py::test_a_certificate_from_before_the_erasure_still_proves_and_says_what_is_gone",
        Edit(
            "cli/looks/certifying.py",
            "if name is not None and not wrong else []",
            "if name is None and not wrong else []",
        ),
        long=True,
    ),
    one(
        "verify does not look for erased keys",
        "a row that came back would go unseen",
        f"{VERIFIED}test_a_row_of_an_erased_key_that_came_back_is_named",
        Edit("ledger/proof/verify_erased.py", "for each in statements:", "for each in statements[:0]:"),
        long=True,
    ),
    one(
        "an erasure is not held against its decision",
        "whoever rewrites what was erased hides what disappeared",
        f"{VERIFIED}test_an_erasure_that_was_rewritten_is_named",
        Edit("ledger/proof/verify_erased.py", "row.found != row.said or ", ""),
        long=True,
    ),
    one(
        "later records of an erased key stay out, too",
        "a person who comes back is a new fact",
        tuple(
            f"{ERASE}test_records_that_wait_in_the_log_stay_out_and_later_ones_are_taken[{kind}]"
            for kind in ("append", "upsert", "accumulate")
        ),
        Edit("ledger/staging/suppression.sql", "t._offset < b.until_offset\nreturning", "t._offset >= 0\nreturning"),
        long=True,
    ),
    one(
        "a table that was handed over forgets what was erased",
        "its new owner would bring the key in",
        f"{ERASE}test_a_pipeline_that_was_given_the_table_keeps_the_key_out_and_erases_older_rows",
        Edit(LINE, "select array_agg(name) from line\n", "select array[of_pipeline]\n"),
        long=True,
    ),
    one(
        "rejects are emptied whatever their age",
        "the pipeline says how long they are kept",
        f"{KEPT}test_younger_rejects_keep_their_bytes",
        Edit(MIGRATION, "c.at < clock_timestamp() - make_interval(days => days)", "c.at < clock_timestamp()"),
        long=True,
    ),
    one(
        "an emptied reject forgets its digest",
        "verify would call it changed",
        f"{KEPT}test_upkeep_empties_what_is_older_and_verify_still_holds",
        Edit("ledger/proof/verify_contents.sql", " + coalesce(t.removed_digest, 0)", ""),
        long=True,
    ),
    one(
        "upkeep empties no rejects",
        "nobody else would",
        f"{KEPT}test_upkeep_empties_what_is_older_and_verify_still_holds",
        Edit(
            "steps/upkeep/coverage.py",
            "emptied, not_emptied = empty_rejects(conn)",
            "emptied, not_emptied = 0, list[str]()",
        ),
        long=True,
    ),
    one(
        "a log line quotes values",
        "the key would stand in logs, where erase finds nothing",
        (f"{QUIET}[trigger-per batch]",),
        Edit(
            "adapters/postgres_words.py",
            "    if isinstance(error, IntegrityError | ProgramLimitExceeded):\n",
            "    if True:\n",
        ),
        long=True,
    ),
    one(
        "a batch that is blocked quotes values",
        "what the ledger keeps would stand in logs after all",
        (f"{QUIET}[unique-per batch]",),
        Edit(
            "ledger/batch/plan.sql",
            "split_part(max(error) filter (where newest), e'\\n', 1)",
            "max(error) filter (where newest)",
        ),
        long=True,
    ),
    one(
        "a table whose changes go unseen is erased in",
        "its feed would not be told",
        "tests/feed/test_erased.py::test_a_table_whose_changes_cannot_be_caught_is_refused_and_nothing_is_erased",
        Edit("steps/changes/erase.py", "        open_erasure_set(cur, pipeline.name, table)  #", "        pass  #"),
        long=True,
    ),
    one(
        "verify does not look for an erased key in totals and late rows",
        "a late record of the key could come back unseen",
        tuple(
            f"tests/windows/test_erased_windows.py::test_what_is_late_or_counts_and_holds_the_key_again_is_named[{table}]"
            for table in ("late", "contribution")
        ),
        Edit("ledger/proof/verify_erased.py", 'statements.append(sql.SQL(Q["still_added"]))', "pass"),
        long=True,
    ),
]
