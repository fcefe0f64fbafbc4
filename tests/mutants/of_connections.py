"""Lists mutants of the guards around a connection: its password, its server, its pooler."""

from __future__ import annotations

from mutants.mutant import Edit, one

COMMAND = "tests/core/test_password_command.py::"
SERVERS = f"{COMMAND}test_several_servers_lead_to_the_one_that_can_be_written"

MUTANTS = [
    one(
        "a password command is split at blanks",
        "quoted words would come apart, and quotes would be part of them",
        f"{COMMAND}test_it_is_split_as_a_shell_splits",
        Edit("adapters/connection/password.py", "shlex.split(command)", "command.split()"),
        long=True,
    ),
    one(
        "what a password command printed is repeated",
        "a password would stand in a log",
        f"{COMMAND}test_a_command_that_gives_none_is_one_line_without_its_output[fails]",
        Edit(
            "adapters/connection/password.py",
            "ended with exit code {process.returncode}",
            "ended with exit code {process.returncode}: {said!r}",
        ),
        long=True,
    ),
    one(
        "a password is kept for good",
        "a token ends",
        f"{COMMAND}test_an_answer_is_kept_for_a_minute_and_one_that_is_refused_for_seconds",
        Edit("adapters/connection/password.py", "else PASSWORD_KEPT_SECONDS", "else 1e9"),
        long=True,
    ),
    one(
        "a password that a server refuses is kept",
        "after a rotation each connection would fail for a minute",
        "tests/ledger/test_logins.py::test_a_password_that_changed_is_asked_for_anew_by_ledger_and_stagers",
        Edit("adapters/connection/opened.py", 'refused=parts["password"]', "refused=None"),
        long=True,
    ),
    one(
        "programs inherit the password command",
        "what a transform runs in would have our login",
        f"{COMMAND}test_it_is_read_from_the_environment_and_kept_from_programs",
        Edit("adapters/withheld.py", "LOCKSTEP_(DSN(_PASSWORD_COMMAND)?|", "LOCKSTEP_(DSN|"),
        long=True,
    ),
    one(
        "several servers lead to any of them",
        "a session would be with a standby",
        tuple(f"{SERVERS}[{each}]" for each in ("uri", "words", "addresses")),
        Edit("adapters/connection/dsn.py", '"target_session_attrs", "read-write"', '"target_session_attrs", "any"'),
        long=True,
    ),
    one(
        "a standby is taken",
        "its state may be older, and a decision would rest on it",
        "tests/crash/test_failover.py::test_a_standby_is_refused_and_a_dsn_of_several_servers_leads_past_it",
        Edit("adapters/postgres.py", "    if found.standby:", "    if found.standby is None:"),
        long=True,
    ),
    one(
        "a login that may only read is taken",
        "commands that look would answer, and those that write would end in the middle",
        "tests/cli/test_reader_endpoint.py::test_every_command_refuses_it",
        Edit("adapters/postgres.py", 'if found.read_only == "on":', 'if found.read_only == "never":'),
        long=True,
    ),
    one(
        "a pooler in transaction mode is taken",
        "what a session sets would be another session's",
        "tests/cli/test_doctor_elsewhere.py::test_a_transaction_pooler_is_told",
        Edit("adapters/connection/poolers.py", "    if first != again or first == other:", "    if first != again:"),
        long=True,
    ),
    one(
        "a pooler is looked for when the session is set",
        "another application would find our settings in its session",
        "tests/cli/test_doctor_elsewhere.py::test_a_transaction_pooler_is_told",
        Edit(
            "adapters/postgres.py",
            "        _require_own_backend(conn, dsn, place)\n        _assert_promises(conn, place)\n",
            "        _assert_promises(conn, place)\n        _require_own_backend(conn, dsn, place)\n",
        ),
        long=True,
    ),
    one(
        "a ledger that goes away behind a commit leaves a doubt",
        "the run would say that it could not be done, and it is done",
        "tests/simulation/test_in_doubt.py::test_a_ledger_that_goes_away_behind_a_commit_leaves_no_doubt",
        Edit("steps/batch/outcome.py", "if not report.went_on or report.superseded:", "if report.went_on:"),
        long=True,
    ),
]
