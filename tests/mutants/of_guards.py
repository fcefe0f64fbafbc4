"""Lists mutants of the guards by which the database decides what a run's login may do."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

DEFINERS = "tests/ledger/test_definers.py::"
BORROWS = "ledger/migrations/0082_nobody_borrows_triggers.sql"

MUTANTS = [
    one(
        "everybody may execute the ledger's functions",
        "a trigger of the owner's would work on rows that anybody makes up",
        (
            f"{DEFINERS}test_everybody_may_execute_no_function_of_the_ledger",
            f"{DEFINERS}test_a_role_may_call_the_functions_of_the_written_list_with_the_owners_rights_and_no_others[lockstep_executor]",
        ),
        Drop("grant execute on all functions in schema lockstep to public"),
    ),
    one(
        "a new function is everybody's",
        "the next migration would forget to revoke it",
        f"{DEFINERS}test_a_function_that_the_owner_makes_is_not_everybodys",
        Edit(
            BORROWS, "alter default privileges for role lockstep_owner", "alter default privileges in schema lockstep"
        ),
        long=True,
    ),
    one(
        "a trigger of the owner's takes any table",
        "one grant would be enough to end the chain",
        (
            f"{DEFINERS}test_each_trigger_with_the_owners_rights_asks_first_whose_table_it_is",
            f"{DEFINERS}test_a_trigger_of_the_owners_refuses_a_table_that_is_not_the_ledgers[the chain's queue]",
            f"{DEFINERS}test_a_trigger_of_the_owners_refuses_a_table_that_is_not_the_ledgers[a lock]",
        ),
        Edit(BORROWS, "        execute replace(pg_get_functiondef(each.oid), each.prosrc, changed);\n", ""),
        long=True,
    ),
]
