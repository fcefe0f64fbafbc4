"""Mutants of what keeps a feed whole: its numbers, its images, and its table."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, Mutant, one

CHANGES = "ledger/migrations/0040_changes.sql"
NET_SET = "ledger/migrations/0075_rows_of_any_column.sql"  # the newest net_set
SENDS = "ledger/migrations/0042_sends.sql"  # the functions that it made anew are in force
TRIMS = "ledger/migrations/0094_trimmed_without_rejects.sql"  # the newest trim_feed
CONSTRAINTS = "tests/feed/test_constraints_of_feeds.py::"
REFUSES = f"{CONSTRAINTS}test_a_constraint_refuses_by_itself"
COMMITS = "tests/feed/test_commits_are_told.py::"
NET = f"{COMMITS}test_e11_a_replay_of_the_same_code_announces_nothing"
TRIMMED = "tests/feed/test_trimming.py::"
VERIFY = "tests/feed/test_verify_feeds.py::test_what_is_planted_is_found"
LAST = f"{COMMITS}test_e12_a_commit_holds_the_feed_only_behind_everything_else"


def dropped(table: str, name: str, why: str, *cases: int, kind: str = "constraint") -> Mutant:
    """Returns a mutant that drops a constraint, an index or a trigger of a feed's tables."""
    gone = {
        "constraint": f"alter table lockstep.{table} drop constraint {name}",
        "index": f"drop index lockstep.{name}",
        "trigger": f"drop trigger {name} on lockstep.{table}",
    }[kind]
    red = tuple(f"{REFUSES}[{name}-{case}]" for case in cases or (0,))
    return one(f"{name} dropped from {table}", why, red, Drop(gone), long=True)


MUTANTS = [
    dropped("feed", "one_name", "two tables would share the images"),
    dropped("feed", "keeps_something", "upkeep would trim what nobody has read"),
    dropped("feed", "feed_forward", "a feed would have trimmed what it never told"),
    dropped("feed", "feed_by_one", "numbers would be passed over, or given again", 0, 1, 2, 3, 4, kind="trigger"),
    dropped("change_set", "kind_says_whose", "a change would have no batch and no reason", 0, 1, 2),
    dropped("change_set", "numbered_whole", "a set would have a place and no numbers"),
    dropped("change_set", "seq_once", "two sets would have one place in the order"),
    dropped("change_set", "number_once", "two changes would have one number", kind="index"),
    dropped("change_set", "one_set_a_commit", "a commit would be told twice", kind="index"),
    dropped("change_set", "one_open_set", "images would belong to either of two sets", kind="index"),
    dropped("change_set", "numbered_once", "a set's numbers would change behind a reader", 0, 1, kind="trigger"),
    dropped(
        "change_set", "change_set_is_numbered", "images would lie there that no reader comes to", 0, 1, kind="trigger"
    ),
    one(
        "commit_is_told dropped",
        "a commit would change a table unannounced, or leave a gap",
        (
            f"{CONSTRAINTS}test_a_commit_that_has_not_told_a_feed_is_refused",
            f"{CONSTRAINTS}test_a_commit_is_not_told_by_the_set_of_another_transaction",
        ),
        Drop("drop trigger commit_is_told on lockstep.commit"),
        long=True,
    ),
    one(
        "changes_counted is not asked",
        "a set would tell more changes than there are",
        tuple(f"{REFUSES}[changes_counted-{case}]" for case in (0, 1, 2)),
        Edit(
            SENDS,
            "if counted.changes <> new.changes or coalesce(counted.last + 1, 0) <> new.changes then",
            "if false then",
        ),
        long=True,
    ),
    one(
        "only_by_commit lets a table be emptied",
        "the rows would be gone, and the feed would still have them",
        (f"{REFUSES}[only_by_commit-4]",),
        Edit(
            SENDS,
            "if of_set.change_set_id is null or tg_op = 'TRUNCATE' then",
            "if of_set.change_set_id is null then",
        ),
        long=True,
    ),
    one(
        "only_by_commit takes any set",
        "a table would change without a commit, in a set that readers have passed",
        (f"{REFUSES}[only_by_commit-0]", f"{REFUSES}[only_by_commit-5]"),
        Edit(
            SENDS,
            "select * into of_set from lockstep.change_set c\n"
            "    where c.target = tg_argv[0] and c.xid = pg_current_xact_id() and c.seq is null;",
            "select * into of_set from lockstep.change_set c\n    where c.target = tg_argv[0] limit 1;",
        ),
        long=True,
    ),
    one(
        "key_stays is not asked",
        "before and after would be of two rows",
        (f"{REFUSES}[key_stays-0]",),
        Edit(SENDS, "if moved then", "if false then"),
        long=True,
    ),
    one(
        "a table that is not followed is committed into",
        "changes would go past the feed while a trigger is off",
        (
            f"{CONSTRAINTS}test_a_table_that_is_not_followed_any_more_gets_no_commit[disable trigger only_by_commit_update]",
        ),
        Edit(CHANGES, "and t.tgenabled in ('O', 'A')", ""),
        long=True,
    ),
    one(
        "a replay announces what it undid and did again",
        "those who follow would do all of it again for nothing",
        (f"{NET}[keyed-guarantee0]", f"{NET}[appended-guarantee0]", f"{NET}[keyed-guarantee1]"),
        Edit("steps/feed/announce_changes.py", "        changes.net_changes(cur)\n", ""),
        long=True,
    ),
    one(
        "a net effect has its first image last",
        "a replay under other code would announce what was there before as what is there now",
        (f"{COMMITS}test_e11_a_replay_of_other_code_announces_each_key_once_before_and_after[keyed]",),
        Edit(NET_SET, 'order by "Place" desc, "Change" = \'after\' desc', 'order by "Place", "Change" = \'after\''),
        long=True,
    ),
    one(
        "the feed is locked before what waits for COMMIT is asked",
        "each commit would hold all others while its constraints are checked",
        (LAST,),
        Edit("ledger/feed/changes.py", '    cur.execute(Q["ask_deferred"])\n', ""),
        long=True,
    ),
    one(
        "upkeep trims what is young",
        "a consumer would find its place gone before the feed's time is over",
        (f"{TRIMMED}test_e15_upkeep_trims_sets_that_are_older_than_the_feed_keeps",),
        Edit(TRIMS, "bool_and(c.at < clock_timestamp() - of_feed.keep and", "bool_and("),
        long=True,
    ),
    one(
        "upkeep trims around a young set",
        "numbers would be missing in the middle of what is kept",
        (f"{TRIMMED}test_e15_a_young_set_keeps_the_older_ones_behind_it",),
        Edit(
            TRIMS,
            "coalesce(sent, of_feed.next_number))\n                over (order by c.first_number) as is_old",
            "coalesce(sent, of_feed.next_number))\n                over (partition by c.seq) as is_old",
        ),
        long=True,
    ),
    one(
        "verify does not look at the numbers",
        "a set could be lost and nobody would know",
        (f"{VERIFY}[a lost set]", f"{VERIFY}[a dropped change]", f"{VERIFY}[exchanged numbers]"),
        Edit("ledger/feed/verify.py", '    "the feed\'s numbers have no gap": "numbers_with_gaps",\n', ""),
        long=True,
    ),
    one(
        "verify does not compare the last image with the row",
        "a row that was changed past the feed would be found by nobody",
        (f"{VERIFY}[a row that was changed past the feed]", f"{VERIFY}[a row that was deleted past the feed]"),
        Edit("ledger/feed/verify.sql", "where is_last and case when", "where false and case when"),
        long=True,
    ),
    one(
        "a column that is retyped with other values is followed",
        "the table would not be its feed folded, and no change would say so",
        (
            "tests/feed/test_retyped.py::test_a_column_that_is_retyped_with_other_values_is_refused_until_they_are_back[doubled]",
        ),
        Edit("ledger/feed/make.py", "if retyped and (what := other_rows(cur, pipeline, target)).count", "if False"),
        long=True,
    ),
    one(
        "a reader past the end of a feed gets nothing and no word",
        "after a restore it would miss what gets the numbers again",
        "tests/feed/test_trimming.py::test_a_reader_past_the_end_is_refused_as_after_a_restore",
        Edit("ledger/feed/make.sql", "if $1 > (select f.next_number", "if false and $1 > (select f.next_number"),
        long=True,
    ),
]
