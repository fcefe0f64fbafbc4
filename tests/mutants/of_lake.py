"""Mutants of what keeps the lake's pointers and the offsets together."""

from __future__ import annotations

from mutants.mutant import Drop, Mutant, one

CONSTRAINTS = "tests/ledger/test_constraints_of_lake.py::"
REFUSES = f"{CONSTRAINTS}test_a_constraint_of_the_lake_refuses_by_itself"
WITH_OFFSETS = f"{CONSTRAINTS}test_pointer_with_offsets_refuses_offsets_whose_pointers_have_not_moved"
IN_ANOTHER = f"{CONSTRAINTS}test_pointer_with_offsets_refuses_a_pointer_that_moved_in_another_transaction"
ALONE = f"{CONSTRAINTS}test_offsets_with_pointer_refuses_what_the_committer_moves_alone"

MUTANTS: list[Mutant] = [
    one(
        "pointer_with_offsets dropped",
        "offsets would commit, and their rows would stay out of the lake",
        (*(f"{WITH_OFFSETS}[{case}]" for case in ("none", "one", "untold", "unmoved", "crossed")), IN_ANOTHER),
        Drop("drop trigger pointer_with_offsets on lockstep.commit"),
        long=True,
    ),
    one(
        "offsets_with_pointer dropped",
        "rows would show in the lake, and their offsets would be read again",
        tuple(f"{ALONE}[{case}]" for case in ("untold", "no-offsets")),
        Drop("drop trigger offsets_with_pointer on lockstep.lake_pointer"),
        long=True,
    ),
    one(
        "one_commit_moves_a_table_once dropped",
        "the second move of a transaction would hide the first",
        (f"{REFUSES}[one_commit_moves_a_table_once]",),
        Drop("alter table lockstep.lake_pointer drop constraint one_commit_moves_a_table_once"),
        long=True,
    ),
    one(
        "one_row_a_lake_file dropped",
        "one file would count for two attempts",
        (f"{REFUSES}[one_row_a_lake_file]",),
        Drop("alter table lockstep.lake_file drop constraint one_row_a_lake_file"),
        long=True,
    ),
]
