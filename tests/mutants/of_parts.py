"""Lists mutants of parts of a table by batch: of who makes, closes, attaches and merges them."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, Mutant, one

REFUSES = "tests/ledger/test_constraints_of_parts.py::test_a_constraint_of_parts_refuses_by_itself"
PARTS = "tests/ledger/test_parts.py::"
MERGED = "tests/ledger/test_merged_parts.py::"
MIGRATION = "ledger/migrations/0067_parts.sql"


def unasked(name: str, why: str, old: str, new: str, *cases: str) -> Mutant:
    """Returns a mutant of a guard in a function of the ledger. The cases are those of its test."""
    red = tuple(f"{REFUSES}[{case}]" for case in cases or (f"{name}-0",))
    return one(f"{name} is not asked of parts", why, red, Edit(MIGRATION, old, new), long=True)


MUTANTS = [
    one(
        "a merge does not lock the parts",
        "a row that is deleted between copy and end would come back",
        f"{MERGED}test_a_row_is_not_deleted_between_the_copy_and_the_end_of_a_merge",
        Edit(MIGRATION, "    execute format('lock table %s in share row exclusive mode', whole);\n", ""),
        long=True,
    ),
    one(
        "part_once dropped from part",
        "a range would have two parts of one attempt",
        f"{REFUSES}[part_once-0]",
        Drop("alter table lockstep.part drop constraint part_once"),
        long=True,
    ),
    one(
        "part_landed dropped from part",
        "a part would be attached that was not counted",
        f"{REFUSES}[part_landed-0]",
        Drop("drop trigger part_landed on lockstep.part"),
        long=True,
    ),
    one(
        "part_is_attached dropped from commit",
        "offsets would move without the rows of a part",
        f"{REFUSES}[part_is_attached-0]",
        Drop("drop trigger part_is_attached on lockstep.commit"),
        long=True,
    ),
    unasked(
        "own_target",
        "a task would make parts for another pipeline's table",
        "\n          and case when o.target !~ '[.].*[.]' then to_regclass(o.target) end = make_part.target",
        "",
    ),
    unasked(
        "newest_attempt",
        "an older attempt, and one of a committed batch, would make parts",
        "where b.batch_id = of_batch and b.token = of_token and b.state = 'planned' and r.stream_id",
        "where b.batch_id = of_batch and r.stream_id",
        "newest_attempt-0",
        "newest_attempt-2",
    ),
    unasked(
        "part_stays",
        "a part that was counted would be changed",
        "if its is null or exists (",
        "if its is null or false and exists (",
    ),
    one(
        "part_is_closed dropped from landed",
        "rows would be added to a part that was counted",
        f"{REFUSES}[part_is_closed-0]",
        Drop("drop trigger part_is_closed on lockstep.landed"),
        long=True,
    ),
    unasked(
        "plain_keys",
        "an author's function would run as the ledger's owner",
        "if not key.is_plain or key.as_constraint is null and",
        "if key.as_constraint is null and",
        "plain_keys-0",
        "plain_keys-1",
    ),
    unasked(
        "own_part", "a table that the attempt has not made would be attached", "if one.is_own is not true", "if false"
    ),
    unasked(
        "own_merge",
        "any table would take the place of a batch's rows",
        "if of_batch is null or not exists (",
        "if false and not exists (",
    ),
    one(
        "a part has no fence",
        "a zombie would leave a part behind a newer attempt",
        f"{PARTS}test_a_zombie_behind_a_newer_attempt_leaves_no_part",
        Edit(
            MIGRATION,
            "where b.batch_id = of_batch and b.token = of_token and b.state = 'planned' and r.stream_id",
            "where b.batch_id = of_batch and r.stream_id",
        ),
        Edit("steps/ranges/land_range.py", "            ranges.require_newest_of_range(cur, task.attempt)\n", ""),
        Drop("drop trigger landed_is_hidden on lockstep.landed"),
        long=True,
    ),
    one(
        "the commit does not attach the parts",
        "offsets would have moved, and the rows would go with reap",
        f"{PARTS}test_parts_lie_beside_the_table_with_their_keys_until_the_commit_attaches_them",
        Edit(
            "steps/batch/commit.py",
            "        attach_parts(cur, pipeline.first.table, attempt)\n",
            "        pass\n",
        ),
        Drop("drop trigger part_is_attached on lockstep.commit"),
        long=True,
    ),
    one(
        "a part has no keys of its own",
        "the commit would build them, while all wait",
        f"{PARTS}test_parts_lie_beside_the_table_with_their_keys_until_the_commit_attaches_them",
        Edit(MIGRATION, "    perform lockstep.add_keys(its, its_target);\n", ""),
        long=True,
    ),
    *(
        one(
            f"a table with {what} gets parts",
            why,
            (f"{PARTS}test_a_table_that_tasks_cannot_make_parts_of_goes_its_old_way[{case}]",),
            Edit("targets/table/parts.py", f"        (facts.{fact},", "        (False,"),
            long=True,
        )
        for what, case, fact, why in (
            ("triggers", "a trigger", "has_triggers", "they would not see the rows"),
            (
                "foreign keys",
                "a foreign key",
                "has_foreign_keys",
                "the commit would compare all rows with another table",
            ),
        )
    ),
    one(
        "merged rows are not frozen",
        "a snapshot from before the merge would miss the batch",
        f"{MERGED}test_a_snapshot_from_before_a_merge_misses_no_row",
        Edit(
            "ledger/batch/parts.sql",
            "copy {merged} ({columns}) from stdin with (format binary, freeze)",
            "copy {merged} ({columns}) from stdin with (format binary)",
        ),
        long=True,
    ),
    one(
        "a merge does not count",
        "an older snapshot would miss the rows that a replay has deleted since",
        f"{MERGED}test_a_batch_that_has_lost_rows_stays_in_parts",
        Edit(MIGRATION, "    if held <> (select", "    if false and held <> (select"),
        long=True,
    ),
]
