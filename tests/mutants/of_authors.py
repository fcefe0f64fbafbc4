"""Lists mutants of the guards that keep authors from the ledger, and secrets from where nothing needs them."""

from __future__ import annotations

from mutants.mutant import Edit, one

AUTHORS = "tests/ledger/test_target_authors.py::"
LOGIN = "tests/ledger/test_target_login.py::"
LEFT = f"{AUTHORS}test_code_that_a_run_would_execute_is_not_left_behind"
CODE, SQL = "ledger/admin/author.py", "ledger/admin/author.sql"

MUTANTS = [
    one(
        "the login of target.sql may become the owner",
        "an author would switch the fence off",
        (f"{AUTHORS}test_no_way_out_of_the_targets_role_reaches_the_ledger[set role of the owner]",),
        Edit(SQL, "grant lockstep_targets to {login}", "grant lockstep_owner to {login}"),
    ),
    one(
        "nobody looks at what target.sql leaves behind",
        "a trigger of the author's would run with a run's rights",
        (f"{LEFT}[a trigger]", f"{LEFT}[a domain]"),
        Edit(CODE, "        if left:\n", "        if left and not left:\n"),
        long=True,
    ),
    one(
        "functions of Postgres are let through whatever they do",
        "a default could take another role on",
        (f"{LEFT}[a default that takes a role on]",),
        Edit(SQL, "p.provolatile = 'v' and", "p.provolatile = 'x' and"),
        long=True,
    ),
    one(
        "functions of Postgres that read by a name are let through",
        "a default could read a view of the author's",
        (f"{LEFT}[a default that reads a view]",),
        Edit(SQL, "p.proname like '%%to\\_xml%%' or", "false or"),
        long=True,
    ),
    one(
        "what waits for COMMIT is not looked for",
        "a trigger could be hung behind every look",
        (
            f"{LEFT}[a trigger on a table of its own that waits for COMMIT]",
            f"{LEFT}[a cursor that waits for COMMIT]",
        ),
        Edit(CODE, "            _refuse_what_waits(cur, pipeline)\n", ""),
        long=True,
    ),
    one(
        "the author's names are kept while his work is looked at",
        "a function of his would answer in the place of one of Postgres",
        (f"{LEFT}[names of its own]",),
        Edit(CODE, '            cur.execute(Q["own_names"])\n', ""),
        long=True,
    ),
    one(
        "a session looks for names where others may create",
        "a function of an author's would be called where it fits better than one of Postgres",
        f"{AUTHORS}test_functions_in_the_targets_schema_are_not_taken_for_those_of_postgres",
        Edit("adapters/postgres.py", "set search_path = pg_catalog, pg_temp", "reset search_path"),
        long=True,
    ),
    one(
        "the tables that follow a target are not looked at",
        "their triggers would run in a run's transaction",
        (f"{LEFT}[a trigger of a table that follows]",),
        Edit(SQL, "k.contype = 'f' and k.confrelid = w.oid", "k.contype = 'f' and k.confrelid = 0"),
        long=True,
    ),
    one(
        "the server is given a password to keep in its log",
        "who reads the log could log in",
        f"{LOGIN}test_no_statement_of_the_servers_log_holds_a_password",
        Edit(CODE, 'encrypt_password(password, name, conn, "scram-sha-256")', "password"),
        long=True,
    ),
    one(
        "a login of the operator's may be more than an author",
        "target.sql would run with what that login may",
        (f"{LOGIN}test_an_operators_login_that_may_more_is_refused[superuser-roles0-superuser]",),
        Edit(CODE, "    if found.more:\n", "    if found.more and not found.more:\n"),
        long=True,
    ),
    one(
        "what earlier versions made stays the ledger owner's",
        "a table of the author's would be the owner's, and target.sql could not change it",
        f"{LOGIN}test_what_earlier_versions_made_is_handed_over_and_runs_go_on",
        Edit(
            "ledger/migrations/0029_targets_have_an_owner.sql", "c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')", "false"
        ),
        long=True,
    ),
    one(
        "policies bind the ledger's owner",
        "a policy of an author's would run as the owner",
        "tests/ledger/test_rights.py::test_a_policy_of_a_targets_author_does_not_run_as_the_owner",
        Edit("ledger/migrations/0029_targets_have_an_owner.sql", "set row_security = off", "set row_security = on"),
        long=True,
    ),
    one(
        "Spark inherits the logins",
        "a crash report of a Spark program would show them",
        "tests/spark/test_canaries.py::test_no_secret_shows_where_it_is_not_needed",
        Edit("engine/spark/session.py", "with withheld(of=FROM_PROGRAMS):", "with withheld({}):"),
        long=True,
    ),
    one(
        "an unencrypted way is no finding",
        "a deployment without TLS would count as ready",
        ("tests/core/test_production.py::test_a_point_that_is_not_met_is_named_with_the_next_command[no TLS]",),
        Edit(
            "core/health/production.py",
            'way.far and way.encryption != "verify-full":',
            'way.far and way.encryption == "allow":',
        ),
        long=True,
    ),
]
