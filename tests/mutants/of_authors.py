"""Lists mutants of the guards that keep authors from the ledger, and secrets from where nothing needs them."""

from __future__ import annotations

from mutants.mutant import Edit, one

AUTHORS = "tests/ledger/test_target_authors.py::"
LOGIN = "tests/ledger/test_target_login.py::"
LEFT = f"{AUTHORS}test_code_that_a_run_would_execute_is_not_left_behind"
RIGHTS = "tests/web/test_rights.py::"
NEVER_RAN = f"{RIGHTS}test_a_dag_that_has_the_id_of_a_pipeline_and_never_ran_it_shows_nothing"
SEEN = "tests/cli/test_authors_code.py::"
PROCESS = "tests/cli/test_definition_process.py::"
EVALUATE, SERVER = "adapters/definition/process.py", "adapters/definition/server.py"
CONNECTION = "adapters/definition/connection.py"
CODE, SQL = "ledger/admin/author.py", "ledger/admin/author.sql"

MUTANTS = [
    one(
        "the id of a DAG leads to a pipeline's pages",
        "whoever writes a DAG file would read any pipeline's records",
        (f"{NEVER_RAN}[drill-None]",),
        Edit("web/app.py", ", Depends(_require_shown)]", "]"),
    ),
    one(
        "the list of pipelines goes by the ids of DAGs",
        "whoever writes a DAG file would see any pipeline's lag",
        (f"{NEVER_RAN}[drill-None]",),
        Edit(
            "web/pages/pipelines_page.py",
            "    doors = {name: doors[name] for name in shown_pipelines(doors, dag_ids)}\n",
            "",
        ),
        long=True,
    ),
    one(
        "metrics go by the ids of DAGs",
        "whoever writes a DAG file would see any pipeline's lag",
        (f"{NEVER_RAN}[drill-None]",),
        Edit("web/metrics.py", "        names = shown_pipelines(names, readable)\n", "        names = set(names)\n"),
        long=True,
    ),
    one(
        "a DAG that the reader may not read opens a pipeline",
        "the right to one DAG would be the right to another's records",
        (f"{NEVER_RAN}[drill-somebody_elses]",),
        Edit("web/rights.py", " if dag in readable})", "})"),
        long=True,
    ),
    one(
        "a DAG without Lockstep's tag opens a pipeline",
        "an id would be a right again",
        f"{RIGHTS}test_a_dag_without_lockstep_s_tag_shows_nothing_even_if_it_ran_it",
        Edit("web/rights.py", "(ran[name] or set()) & ours.keys()", "(ran[name] or set()) & {*readable}"),
        long=True,
    ),
    one(
        "a definition is evaluated with the environment of the command",
        "an author would read the owner's login",
        f"{SEEN}test_no_command_shows_a_module_its_secrets",
        Edit(CONNECTION, " if GIVEN.fullmatch(name)}", "}"),
    ),
    one(
        "a definition may look into other processes of its user",
        "an author would read the environment of a shell, or of Airflow",
        f"{SEEN}test_a_module_cannot_read_the_environment_of_other_processes_of_its_user",
        Edit(SERVER, "    _restrict_to_own_processes()\n", ""),
        long=True,
    ),
    one(
        "each load starts a process of its own",
        "a load would cost 20 times as much",
        f"{PROCESS}test_one_process_evaluates_all_definitions_and_a_fork_for_each",
        Edit(CONNECTION, "        if _holder.server is None:\n", "        if True:\n"),
        long=True,
    ),
    one(
        "a fork keeps the pipes of its parent's evaluating process",
        "that process would outlive the one that asks",
        f"{PROCESS}test_the_process_ends_with_the_one_that_asks_also_in_the_middle_of_a_definition",
        Edit(CONNECTION, "os.register_at_fork(after_in_child=_leave_to_parent)\n", ""),
        long=True,
    ),
    one(
        "a definition goes on when the process that asked is gone",
        "it would hold a process for as long as it hangs",
        f"{PROCESS}test_the_process_ends_with_the_one_that_asks_also_in_the_middle_of_a_definition",
        Edit(SERVER, "        if sys.stdin.fileno() in ready:\n", "        if False:\n"),
        long=True,
    ),
    one(
        "a definition's process keeps the descriptors of the one that starts it",
        "an author would read what goes by them",
        f"{SEEN}test_no_command_shows_a_module_its_secrets",
        Edit(SERVER, "    os.closerange(3, writing)\n", ""),
        long=True,
    ),
    one(
        "a command that evaluates a definition may be looked into",
        "an author would read the command's environment in /proc",
        (f"{SEEN}test_a_module_cannot_read_the_environment_of_the_command_above_it[check-without capabilities]",),
        Edit(EVALUATE, "    hide_process()\n", ""),
        long=True,
    ),
    one(
        "commands about the ledger's records evaluate the folder",
        "an author's code would run beside the key that signs",
        f"{SEEN}test_no_command_shows_a_module_its_secrets",
        Edit(
            "cli/history.py",
            "    if not IDENTIFIER.match(name) or name not in folders.pipeline_names():\n        known",
            "    if True:\n        known",
        ),
        long=True,
    ),
    one(
        "a look at rows evaluates the folder",
        "an author's code would run where the ledger has the definition",
        f"{SEEN}test_no_command_shows_a_module_its_secrets",
        Edit("cli/history.py", "if found and found.definition else", "if found and not found.definition else"),
        long=True,
    ),
    one(
        "a definition that reads a withheld variable gets its default",
        "a pipeline would read another topic without a word",
        f"{SEEN}test_a_variable_that_is_withheld_is_named_and_has_no_silent_default[default]",
        Edit("adapters/definition/author.py", "if name in withheld and", "if not withheld and"),
        long=True,
    ),
    one(
        "a definition answers in another pipeline's name",
        "a pipeline would be run as another",
        f"{SEEN}test_the_answer_is_of_the_pipeline_that_was_asked_for",
        Edit(EVALUATE, "    if pipeline.name != name:\n", "    if not pipeline.name:\n"),
        long=True,
    ),
    one(
        "a definition may take as long as it likes",
        "one folder would hold up the look at all pipelines",
        f"{SEEN}test_a_module_that_ends_or_hangs_is_one_line[hangs]",
        Edit(SERVER, "time.monotonic() + seconds", "time.monotonic() + 3600"),
        long=True,
    ),
    one(
        "a definition may be as large as it likes",
        "one folder would fill the memory of the process that asks",
        f"{SEEN}test_a_module_that_ends_or_hangs_is_one_line[large]",
        Edit(SERVER, "len(found) > MOST_ANSWER_BYTES", "not found"),
        long=True,
    ),
    one(
        "a folder whose files have changed is not evaluated again",
        "an edit would run with the definition before it",
        f"{SEEN}test_a_folder_is_evaluated_again_when_a_file_of_it_changes_and_not_before",
        Edit(EVALUATE, "known[:2] == (name, stamps[source])", "known[0] == name"),
        long=True,
    ),
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
