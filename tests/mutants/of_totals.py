"""Lists mutants of accumulated targets: removed, added and recomputed contributions."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

TOTALS = "tests/simulation/test_totals_of_a_key.py::"
NEWEST = "tests/simulation/test_newest_of_a_key.py::"
CONSTRAINT = "tests/ledger/test_constraints.py::test_a_constraint_refuses_by_itself"
TAKEN_OUT = Edit(
    "targets/accumulate.sql",
    "and c.batch_id = k.expects_batch and c.stream_id = k.stream_id",
    "and c.batch_id = k.expects_batch and c.stream_id <> k.stream_id",
)

MUTANTS = [
    one(
        "a replay leaves what it replaces counted",
        "what was contributed before is taken out first",
        f"{TOTALS}test_a_replay_takes_the_old_out_and_adds_the_new",
        TAKEN_OUT,
        long=True,
    ),
    one(
        "withdrawn_whole dropped",
        "the database refuses a replay that forgets to take out",
        f"{TOTALS}test_a_replay_that_forgets_to_take_out_is_refused_by_the_database {CONSTRAINT}[withdrawn_whole-0]",
        Drop("drop trigger withdrawn_whole on lockstep.coverage"),
        long=True,
    ),
    one(
        "what a batch contributes is added twice",
        "each record counts once",
        f"{TOTALS}test_records_add_up_over_batches_and_partitions",
        Edit(
            "targets/accumulate.py",
            '    cur.execute(sql.SQL(Q["add"]).format(**parts), values)\n    done',
            '    cur.execute(sql.SQL(Q["add"]).format(**parts), values)\n'
            '    cur.execute(sql.SQL(Q["add"]).format(**parts), values)\n    done',
        ),
        long=True,
    ),
    one(
        "the totals of touched keys are not taken anew",
        "the least and the greatest may have been taken out",
        f"{TOTALS}test_the_least_and_the_greatest_are_taken_anew_from_what_is_left",
        Edit("targets/accumulate.sql", "and c.key = u.key group by", "and c.key = u.key and false group by"),
        long=True,
    ),
    one(
        "a key that nothing is left of keeps its row",
        "its totals count records that are not there",
        f"{TOTALS}test_a_key_that_nothing_is_left_of_has_no_row",
        Edit("targets/accumulate.sql", "o.target = %(target)s and o.key = c.key", "o.target = %(target)s"),
        long=True,
    ),
    one(
        "a null makes a sum null",
        "nulls are left out",
        f"{TOTALS}test_records_add_up_over_batches_and_partitions",
        Edit(
            "targets/totals.py",
            "coalesce(t.{name} + excluded.{name}, t.{name}, excluded.{name})",
            "t.{name} + excluded.{name}",
        ),
        long=True,
    ),
    one(
        "contributes_once dropped",
        "a segment contributes to a key once",
        f"{CONSTRAINT}[contributes_once-0]",
        Drop("alter table lockstep.contribution drop constraint contributes_once"),
        long=True,
    ),
    one(
        "contributes_what_it_claims dropped",
        "only a batch under way contributes",
        f"{CONSTRAINT}[contributes_what_it_claims-0] {CONSTRAINT}[contributes_what_it_claims-1]",
        Drop("drop trigger contributes_what_it_claims on lockstep.contribution"),
        long=True,
    ),
    one(
        "key_is_whole dropped",
        "a record without a key counts for nobody",
        f"{CONSTRAINT}[key_is_whole-0]",
        Drop("alter table lockstep.contribution drop constraint key_is_whole"),
        long=True,
    ),
    one(
        "of records of one rank the last to come wins",
        "which one wins must not depend on batches",
        (f"{NEWEST}test_records_of_one_rank_at_one_offset_of_two_partitions_have_one_winner_whichever_came_first[1]",),
        Edit(
            "targets/upsert.sql",
            '_offset, t._stream) > ({newest_order} n."Epoch", n._offset, n._stream)',
            '_offset) > ({newest_order} n."Epoch", n._offset)',
        ),
        long=True,
    ),
]
