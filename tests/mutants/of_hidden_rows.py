"""Lists mutants of rows that are written once: of what hides them, of what shows them, and of the fence between."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, Mutant, one

REFUSES = "tests/ledger/test_constraints_of_hidden_rows.py::test_a_constraint_of_hidden_rows_refuses_by_itself"
RACE = "tests/ledger/test_constraints_of_hidden_rows.py::test_a_task_lands_before_a_newer_attempt_is_opened_or_never"
ONCE = "tests/ledger/test_written_once.py::"
MIGRATION = "ledger/migrations/0061_written_once.sql"
CUT = "ledger/migrations/0070_put_aside_behind_a_view.sql"
STAGED = "tests/core/test_violations.py::test_what_only_staged_rows_have_is_looked_at_in_staging"
VIEW = "tests/ledger/test_shown_view.py::"
ADDED_UP = tuple(
    f"{VIEW}test_workers_add_up_the_view_whatever_is_hidden[{many} batch{es}]"
    for many, es in (("many", "es"), ("one", ""))
)
JUDGED = "tests/kafka/test_quarantine.py::test_whoever_dies_a_record_that_is_put_aside_behind_a_view_never_shows"


def dropped(table: str, name: str, why: str, *cases: str, kind: str = "trigger") -> Mutant:
    """Returns a mutant that drops a trigger or a constraint. The cases are those of its test."""
    gone = f"drop trigger {name} on lockstep.{table}"
    if kind == "constraint":
        gone = f"alter table lockstep.{table} drop constraint {name}"
    red = tuple(f"{REFUSES}[{case}]" for case in cases or (f"{name}-0",))
    return one(f"{name} dropped from {table}", why, red, Drop(gone), long=True)


MUTANTS = [
    dropped(
        "hidden_batch",
        "hidden_is_planned",
        "a batch that is committed, or never will be, is hidden for ever",
        *(f"hidden_is_planned-{case}" for case in range(3)),
    ),
    one(
        "the view compares each row with an array",
        "Postgres takes a table of one batch for nearly empty, and adds up its rows in one process",
        (
            *ADDED_UP,
            *(f"{VIEW}test_a_look_by_key_goes_by_the_index[{way}]" for way in ("planned each time", "a generic plan")),
        ),
        Edit(
            "ledger/admin/shown_view.sql",
            "t._batch not in (select h.batch_id from lockstep.hidden_batch h)",
            "t._batch <> all (array(select h.batch_id from lockstep.hidden_batch h))",
        ),
        long=True,
    ),
    one(
        "hidden batches are scanned in parallel",
        "such a scan inside the look lets one process read the whole view",
        ADDED_UP,
        Drop("alter table lockstep.hidden_batch reset (parallel_workers)"),
        long=True,
    ),
    one(
        "a row behind a view may have no batch",
        "it would come and go with what others hide",
        f"{VIEW}test_a_table_whose_rows_may_have_no_batch_gets_no_view",
        Edit("ledger/admin/shown_view.py", "    if found.may_lack_batch:", "    if False:"),
        long=True,
    ),
    one(
        "doctor does not look at the form of a view",
        "a view of the older form stays slow, and nobody is told",
        f"{VIEW}test_a_view_of_the_older_form_is_named_and_drawn_again_below_what_hangs_on_it",
        Edit("ledger/admin/facts.sql", "t.oid is not null and pg_get_viewdef", "false and pg_get_viewdef"),
        long=True,
    ),
    one(
        "hidden_by_view is not asked",
        "rows are hidden only where a view leaves them out",
        tuple(f"{REFUSES}[hidden_by_view-{case}]" for case in range(3)),
        Edit(MIGRATION, "            or to_regclass(new.rows_table) is null then", "            and false then"),
        long=True,
    ),
    dropped("hidden_batch", "hidden_stays", "a batch that is renamed there would be seen"),
    dropped(
        "hidden_batch",
        "shown_with_commit",
        "rows of a batch that is not committed would be seen",
        "shown_with_commit-0",
        "shown_with_commit-1",
    ),
    dropped("commit", "shown_by_commit", "a committed batch would stay hidden"),
    dropped("landed", "landed_is_hidden", "rows would be seen before their commit"),
    one(
        "newest_attempt is not asked of a task that copies",
        "an older attempt would copy behind a newer one",
        tuple(f"{REFUSES}[newest_attempt-{case}]" for case in range(3)),
        Edit(CUT, "    if newest is distinct from new.token or found", "    if false and found"),
        long=True,
    ),
    one(
        "a task that copies does not share its batch",
        "a newer attempt would be opened between the fence and the COMMIT",
        (f"{RACE}[the task]",),
        Edit(
            CUT,
            "into newest, found from lockstep.batch b where b.batch_id = new.batch_id for share;",
            "into newest, found from lockstep.batch b where b.batch_id = new.batch_id;",
        ),
        long=True,
    ),
    dropped(
        "landed",
        "landed_once",
        "two tries would count a range twice",
        "landed_once-0",
        "landed_once-1",
        kind="constraint",
    ),
    one(
        "a piece is not held against its range",
        "rows of another batch's offsets would be shown",
        tuple(f"{REFUSES}[landed_within-{case}]" for case in range(2)),
        Edit(CUT, "    if isempty(new.offsets) or not exists (", "    if false and not exists ("),
        long=True,
    ),
    one(
        "pieces of a range leave a gap",
        "a batch would be shown without the rows of a piece",
        f"{REFUSES}[landed_whole-2]",
        Edit(
            CUT,
            "is distinct from (int8multirange(r.offsets), u.rows::numeric)",
            "is distinct from ((select pg_catalog.range_agg(l.offsets) from lockstep.landed l where "
            "(l.batch_id, l.token, l.stream_id) = (a.batch_id, a.token, a.stream_id)), u.rows::numeric)",
        ),
        long=True,
    ),
    dropped("landed", "landed_counts", "a range has no fewer rows than none", kind="constraint"),
    dropped(
        "commit",
        "landed_whole",
        "a batch would be shown without the rows of a range",
        *(f"landed_whole-{case}" for case in range(3)),
    ),
    dropped(
        "landed",
        "landed_shrinks",
        "a range would be told to have more rows than its task copied",
        *(f"landed_shrinks-{case}" for case in range(3)),
    ),
    one(
        "newest_attempt is not asked of who puts records aside",
        "an older attempt would lower what a newer one has copied",
        f"{REFUSES}[newest_attempt-3]",
        Edit(CUT, "    if newest is distinct from old.token or found", "    if false and found"),
        long=True,
    ),
    one(
        "a record that is put aside keeps its hidden row",
        "the commit would show a row whose record is a reject",
        JUDGED,
        Edit(
            "ledger/staging/quarantine.sql",
            "    delete from {rows} t using violator v\n"
            '    where t._stream = v.stream_id and t._offset = v."offset" and t._batch = %(batch_id)s\n'
            "    returning t._stream, t._offset, v.reason, {row} as digest),\nof_stream",
            "    select t._stream, t._offset, v.reason, {row} as digest from {rows} t\n"
            '    join violator v on t._stream = v.stream_id and t._offset = v."offset" and t._batch = %(batch_id)s),\n'
            "of_stream",
        ),
        long=True,
    ),
    one(
        "what was copied is not lowered by what was put aside",
        "a range would be compared with rows that are no longer there",
        JUDGED,
        Edit(
            "ledger/staging/quarantine.sql",
            "set rows = l.rows - p.rows, rows_digest = l.rows_digest - p.rows_digest from",
            "set rows = l.rows from",
        ),
        long=True,
    ),
    one(
        "a suite that looks at staged columns judges hidden rows",
        "its columns would be missing there",
        tuple(f"{STAGED}[expect_column_values_to_not_be_null-kwargs{n}-True]" for n in (5, 6)),
        Edit("core/pipeline/violations.py", "or bool(_STAGED_ONLY.search(json.dumps(each, default=str)))", "or False"),
        long=True,
    ),
    dropped("target_owner", "owned_through_view", "a second pipeline would write rows that nobody hides"),
    one(
        "what a dead attempt has left stays",
        "the next attempt would meet its keys",
        f"{ONCE}test_what_a_dead_attempt_has_left_goes_before_the_next_one_writes",
        Edit("steps/ranges/stage_once.py", "        hidden.clear(cur, attempt.batch_id, rows_table)", "        pass"),
        long=True,
    ),
    one(
        "rows of an abandoned batch stay in the way",
        "its offsets could not be read again before reap",
        tuple(
            f"{ONCE}test_offsets_of_an_abandoned_batch_are_read_again_before_reap_comes[{way}]"
            for way in ("written once", "staged")
        ),
        Edit(
            "ledger/batch/hidden.sql",
            "    where h.rows_table = %(rows_table)s and b.state",
            "    where false and b.state",
        ),
        long=True,
    ),
    one(
        "a task does not look at the rows of its range",
        "a row that another attempt left would be shown with the batch",
        f"{ONCE}test_a_row_that_no_task_of_this_attempt_copied_refuses_the_range",
        Edit("steps/ranges/land_range.py", "if held.counts[stream_id] != line.rows:", "if held.counts[stream_id] < 0:"),
        long=True,
    ),
    one(
        "a task that copies has no fence",
        "a zombie would add rows to a batch that another attempt has validated",
        f"{ONCE}test_a_zombie_behind_a_newer_attempt_copies_nothing",
        Edit("steps/ranges/land_range.py", "            ranges.require_newest_of_range(cur, task.attempt)\n", ""),
        Drop("drop trigger landed_is_hidden on lockstep.landed"),
        long=True,
    ),
    one(
        "a part of a range counts as the whole",
        "the rest of its rows would be missing",
        f"{ONCE}test_a_piece_of_a_range_refuses_the_whole_and_the_next_attempt_does_not_cut",
        Edit("ledger/batch/hidden.py", "    if copied not in {0, item.offsets.span}:", "    if copied < 0:"),
        long=True,
    ),
    one(
        "a second try of a task does not look for the first",
        "it would copy again what is there",
        f"{ONCE}test_a_second_try_of_a_task_finds_what_the_first_has_copied",
        Edit(
            "steps/ranges/land_range.py",
            "if hidden.has_landed(cur, task.attempt, item):",
            "if not stream_id:",
        ),
        long=True,
    ),
    one(
        "the commit does not show its batch",
        "offsets would have moved, and nobody would see the rows",
        f"{ONCE}test_rows_are_there_before_the_commit_and_seen_from_it_on",
        Edit(
            "ledger/batch/hidden.sql",
            "with shown as (delete from lockstep.hidden_batch where batch_id = %(batch_id)s)\n",
            "",
        ),
        Drop("drop trigger shown_by_commit on lockstep.commit"),
        long=True,
    ),
    one(
        "a batch is not hidden",
        "rows would be seen before their commit",
        f"{ONCE}test_rows_are_there_before_the_commit_and_seen_from_it_on",
        Edit(
            "ledger/batch/hidden.py",
            '        cur.execute(Q["hide"], {"batch_id": attempt.batch_id, "rows_table": rows_table})',
            "        pass",
        ),
        Drop("drop trigger landed_is_hidden on lockstep.landed"),
        long=True,
    ),
    one(
        "a table with triggers is copied into",
        "what a trigger makes of a row is not what was counted",
        (f"{ONCE}test_a_table_that_copies_cannot_fill_is_filled_by_the_commit[a trigger]",),
        Edit("targets/written_once.py", "        (facts.has_triggers,", "        (False,"),
        long=True,
    ),
    one(
        "an abandoned batch is no longer hidden",
        "its rows would be seen until reap has deleted them",
        f"{ONCE}test_an_abandoned_batch_is_hidden_until_its_rows_are_gone",
        Edit("steps/upkeep/reap.py", "                hidden.clear(cur, row.batch_id, row.rows_table)\n", ""),
        Drop("drop trigger shown_with_commit on lockstep.hidden_batch"),
        long=True,
    ),
    one(
        "hidden rows of an abandoned batch are cleared behind the first target alone",
        "the next batch would fail with a duplicate key, until somebody runs reap",
        "tests/simulation/test_written_once.py::test_rows_of_an_abandoned_batch_are_cleared_behind_a_second_target",
        Edit("targets/written_once.py", "for target in pipeline.targets if", "for target in pipeline.targets[:1] if"),
        long=True,
    ),
]
