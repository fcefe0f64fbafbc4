"""Lists mutants of the constraints that no other list drops.

With one off, its own cases are no longer refused by its name.
"""

from __future__ import annotations

from mutants.mutant import Drop, Edit, Mutant, one

REFUSES = "tests/ledger/test_constraints.py::test_a_constraint_refuses_by_itself"
AGREE = "tests/ledger/test_owners.py::test_the_database_refuses_owners_that_do_not_agree"


def dropped(table: str, name: str, why: str, *cases: int, kind: str = "constraint") -> Mutant:
    """Returns a mutant that drops a constraint or trigger of one table.

    The cases are those of `test_constraints.py`.
    """
    gone = f"drop trigger {name} on lockstep.{table}"
    if kind == "constraint":
        gone = f"alter table lockstep.{table} drop constraint {name}"
    red = tuple(f"{REFUSES}[{name}-{case}]" for case in cases or (0,))
    return one(f"{name} dropped from {table}", why, red, Drop(gone), long=True)


MUTANTS = [
    dropped("pipeline", "name_is_identifier", "names become names of tables and topics"),
    dropped("stream", "not_before_start", "a position before the start counts offsets that nobody planned"),
    dropped("stream", "one_stream_an_epoch", "two streams of one partition and epoch would both own an offset"),
    one(
        "one_open_stream dropped",
        "a partition would be read from two positions",
        (f"{REFUSES}[one_open_stream-0]",),
        Drop("drop index lockstep.one_open_stream"),
        long=True,
    ),
    dropped("request_window", "half_open", "an empty window is no part of a request", 8),
    dropped("batch_range", "half_open", "an empty or endless range reads nothing, or for ever", 1, 2, 3),
    dropped("claim", "half_open", "an endless claim keeps every other batch out", 4),
    dropped("coverage", "half_open", "what is covered begins at an offset that a log can have", 5, 6),
    dropped("arrival", "half_open", "an empty arrival says of nothing that it arrived", 0),
    one(
        "half_open dropped from hour_offsets",
        "an hour does not end before it begins; with hour_is_covered off, which hides it",
        (f"{REFUSES}[half_open-7]",),
        Drop(
            "alter table lockstep.hour_offsets drop constraint half_open; "
            "drop trigger hour_is_covered on lockstep.hour_offsets"
        ),
        long=True,
    ),
    dropped("request_window", "no_window_twice", "a request would read the same offsets twice"),
    dropped("batch", "live_has_no_request", "a replay without a request is a batch that nobody asked for"),
    dropped("batch", "closed_has_a_time", "history says when a batch ended"),
    dropped("claim", "expects_whom", "a claim on a batch's offsets names the batch that it replaces"),
    dropped("attempt", "token_once", "a token that two attempts share fences out neither"),
    dropped("attempt", "route_says_why", "history says which reader made the rows, and why", 0, 1, 2),
    dropped("attempt", "closed_attempt_has_a_time", "history says when an attempt ended"),
    dropped("attempt", "index_of_a_task", "the log of an attempt would be looked for at a task that never was", 0, 1),
    dropped("result", "reconciles", "each record delivered is written, filtered, rejected or put aside"),
    dropped("result", "nothing_trimmed", "a log's start goes back only where it is another log"),
    dropped("coverage", "batch_is_named", "rows that no batch brought have no proof"),
    dropped(
        "commit", "results_first", "offsets would be ahead of results that the store never got", 0, 1, kind="trigger"
    ),
    dropped("delivery", "offsets_first", "at most once, a result before its offsets comes twice", kind="trigger"),
    dropped("target_rows", "records_have_rows", "a record that made no row was not written"),
    dropped("commit", "every_target", "one of two targets would lack the rows", kind="trigger"),
    dropped("complete_hour", "whole_hour", "hours begin and end at the hour"),
    dropped("complete_hour", "hour_is_over", "an hour that is not over may still get records"),
    dropped("complete_hour", "hour_is_whole", "an hour says of each open stream where it ends", kind="trigger"),
    dropped("complete_hour", "hours_in_order", "what is complete is never told again or before", 0, 1, kind="trigger"),
    dropped("verdict", "verdict_names_its_definition", "a verdict without its definition judges nothing"),
    dropped("commit", "commit_names_its_definition", "a commit without its definition cannot be proved again"),
    dropped("link", "link_once", "a commit in two links is in one too many"),
    dropped("link", "decision_link_once", "a decision in two links is in one too many"),
    dropped("link", "request_link_once", "a request in two links is in one too many"),
    dropped("link", "ledger_link_once", "a chain would name its ledger twice"),
    dropped("ledger", "one_ledger", "a ledger with two ids is two ledgers"),
    dropped("link", "one_record", "a link of no record proves nothing", 0, 1),
    *(
        one(
            f"noted_for_the_chain dropped from {table}",
            "a record that no link holds could be rewritten",
            f"tests/ledger/test_chain.py::test_what_is_committed_or_decided_waits_for_its_link[{table}]",
            Drop(f"drop trigger noted_for_the_chain on lockstep.{table}"),
            long=True,
        )
        for table in ("commit", "decision", "request")
    ),
    one(
        "opened_as_named dropped",
        "a request would bear another pipeline's name in the chain",
        "tests/ledger/test_chain.py::test_a_request_bears_the_name_that_its_pipeline_has_and_no_other",
        Drop("drop trigger opened_as_named on lockstep.request"),
        long=True,
    ),
    one(
        "recorded_session dropped from decision",
        "a decision would say of its writer what the writer says",
        "tests/ledger/test_who_decided.py::test_a_forged_identity_is_overwritten_by_the_servers_knowledge[decision]",
        Drop("drop trigger recorded_session on lockstep.decision"),
        long=True,
    ),
    dropped("shape", "one_shape", "one hash names one shape of a table"),
    dropped("content", "appended_has_digest", "a digest of rows says of which table's shape it is"),
    one(
        "target_is_qualified dropped",
        "two spellings of one table would have two owners",
        tuple(f"{AGREE}[rows{number}-target_is_qualified]" for number in (5, 6, 8)),
        Drop("alter table lockstep.target_owner drop constraint target_is_qualified"),
        long=True,
    ),
    one(
        "shares_with_others dropped",
        "an owner that shares with itself passes for one that shares",
        (f"{AGREE}[rows4-shares_with_others]",),
        Drop("alter table lockstep.target_owner drop constraint shares_with_others"),
        long=True,
    ),
    one(
        "coverage may lie past the position",
        "the next plan would read what counts as read",
        (f"{REFUSES}[not_past_position-0]",),
        Edit(
            "ledger/migrations/0004_guards.sql",
            "if upper(new.offsets) > (select s.position",
            "if 0 > (select s.position",
        ),
        long=True,
    ),
    one(
        "one_log dropped from coverage",
        "a loss or a skip would speak of a log that is gone",
        (f"{REFUSES}[one_log-1]",),
        Drop("drop trigger one_log on lockstep.coverage"),
        long=True,
    ),
    one(
        "one_log dropped from boundaries",
        "a time would be looked up in a log that is gone",
        (f"{REFUSES}[one_log-0]",),
        Drop("drop trigger one_log on lockstep.boundary"),
        long=True,
    ),
    one(
        "a new incarnation leaves claims on the older one",
        "a batch under way would commit offsets of a log that is gone",
        "tests/ledger/test_one_log.py::test_a_new_incarnation_waits_for_the_claims_on_the_older_one "
        "tests/ledger/test_one_log.py::test_an_incarnation_is_one_log_and_none_comes_back",
        Drop("drop trigger one_log on lockstep.stream"),
        long=True,
    ),
    dropped("attempt", "spark_ui_is_web", "a link of the page would run a script"),
    dropped("spark_run", "server_says_nothing", "a number would stand there that no server has told", 0, 1),
]
