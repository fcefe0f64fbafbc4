"""Lists mutants of approvals: who may approve, and what the ledger keeps of it."""

from __future__ import annotations

from mutants.mutant import Edit, one

COUNTS = "tests/core/test_approval.py::test_an_approval_counts_or_says_why_not"
RECORDED = "tests/dags/test_recorded_approval.py::"
NOT_COUNTED = f"{RECORDED}test_an_approval_that_does_not_count_is_recorded_as_refused"
LISTENER = "tests/dags/test_backfill_listener.py::test_a_run_of_a_backfill_has_its_behavior_beside_what_it_was_given"
FORM = "tests/core/test_history.py::test_"
HISTORY = "tests/kafka/test_history.py::"
APPROVAL = "core/changes/approval.py"
ASKED = "airflow/history/asked.py"

MUTANTS = [
    # Which runs replay.
    one(
        "the first backfill that reprocesses completed runs only fills",
        "a day that the live DAG has covered would be green, and nothing would be replayed",
        f"{FORM}a_first_run_replays_what_is_covered_if_its_backfill_reprocesses_completed_runs",
        Edit(
            "core/planning/history.py",
            "run.reprocess == Reprocess.COMPLETED or run.clear_number",
            "run.clear_number",
        ),
        long=True,
    ),
    one(
        "every first run of a backfill replays",
        "nobody has asked for a replay",
        f"{FORM}a_first_run_only_fills_if_its_backfill_makes_no_run_again_or_failed_ones",
        Edit("core/planning/history.py", "run.reprocess == Reprocess.COMPLETED or", "run.reprocess or"),
        long=True,
    ),
    one(
        "the scheduler writes no behavior",
        "a run would not know what its backfill asks for",
        tuple(f"{LISTENER}[{behavior}]" for behavior in ("none", "failed", "completed")),
        Edit("adapters/airflow/backfills.py", "if approve is not None and", "if approve is None and"),
        long=True,
    ),
    # Who may approve.
    one(
        "the asker approves",
        "nobody else would have looked",
        tuple(f"{COUNTS}[{who}]" for who in ("the asker", "the asker in capitals", "the asker by id, named")),
        Edit(APPROVAL, "if asker.casefold() in {approver.id.casefold(), approver.name.casefold()}:", "if not asker:"),
        long=True,
    ),
    one(
        "the asker approves under another case",
        "many auth managers know no case",
        (f"{COUNTS}[the asker in capitals]",),
        Edit(
            APPROVAL,
            "if asker.casefold() in {approver.id.casefold(), approver.name.casefold()}:",
            "if asker in {approver.id, approver.name}:",
        ),
        long=True,
    ),
    one(
        "the asker approves under another id than name",
        "Airflow gives the asker by name, and approvers by id",
        tuple(f"{COUNTS}[{who}]" for who in ("the asker", "the asker in capitals")),
        Edit(APPROVAL, "in {approver.id.casefold(), approver.name.casefold()}:", "in {approver.id.casefold()}:"),
        long=True,
    ),
    one(
        "a person who is not named approves",
        "the pipeline says who may",
        tuple(f"{COUNTS}[{who}]" for who in ("not named", "named by name")),
        Edit(APPROVAL, "if named and approver.id not in named:", "if named and not approver.id:"),
        long=True,
    ),
    one(
        "a name counts for an id",
        "users may choose their names",
        (f"{COUNTS}[named by name]",),
        Edit(
            APPROVAL,
            "if named and approver.id not in named:",
            "if named and not {approver.id, approver.name} & {*named}:",
        ),
        long=True,
    ),
    one(
        "a request of nobody is approved",
        "the approver may be the asker",
        tuple(f"{COUNTS}[{who}]" for who in ("asked by nobody", "asked by an empty name")),
        Edit(
            APPROVAL,
            '        return "Airflow does not say who asked, so the approver may be the asker"\n',
            "        return None\n",
        ),
    ),
    one(
        "nobody approves",
        "a response that timed out names no user",
        (f"{COUNTS}[nobody]",),
        Edit(APPROVAL, '        return "Airflow has no record of a user who approved"\n', "        return None\n"),
        long=True,
    ),
    # What the ledger keeps.
    one(
        "an approval is not recorded",
        "the task goes on, and nothing says who approved",
        (
            f"{RECORDED}test_a_named_persons_approval_is_in_the_ledger_before_the_task_goes_on",
            *(f"{NOT_COUNTED}[{who}]" for who in ("not named", "the asker", "nobody")),
            f"{RECORDED}test_an_approval_of_a_run_without_a_known_asker_is_recorded_as_refused",
        ),
        Edit(
            "airflow/history/approval.py",
            "            asked.record_approval(self.door, event, self.approvers)\n",
            "            pass\n",
        ),
        long=True,
    ),
    one(
        "a rejection is recorded as an approval",
        "what nobody wants would be done",
        (f"{RECORDED}test_a_rejection_approves_nothing",),
        Edit("airflow/history/approval.py", ' and list(event["chosen_options"]) == [self.APPROVE]:', ":"),
        long=True,
    ),
    one(
        "an approval that does not count is recorded as one",
        "the rule is asked, and its answer is not",
        tuple(f"{NOT_COUNTED}[{who}]" for who in ("not named", "the asker", "nobody")),
        Edit(
            ASKED,
            "if (reason := refusal(asker(), approver, approvers)) is not None:",
            "if (reason := None) is not None:",
        ),
        long=True,
    ),
    one(
        "a refused approval leaves no row",
        "who tried would be in Airflow's log alone",
        tuple(f"{NOT_COUNTED}[{who}]" for who in ("not named", "the asker", "nobody")),
        Edit(
            ASKED,
            "            history.refuse_approval(at.conn, door.pipeline, approval, triggering_person(key, reason, name))\n",
            "",
        ),
        long=True,
    ),
    one(
        "the ledger is not asked for the approval",
        "whoever sets the task to success has approved",
        (
            *(f"{NOT_COUNTED}[{who}]" for who in ("not named", "the asker", "nobody")),
            f"{RECORDED}test_an_approval_of_another_run_is_not_this_ones",
        ),
        Edit(ASKED, "if not history.is_approved(at.conn, door.pipeline, key, asked):", "if not door.pipeline:"),
        long=True,
    ),
    one(
        "any run's key is taken",
        "a rewritten XCom would lead to another run's approval",
        (f"{RECORDED}test_an_approval_of_another_run_is_not_this_ones",),
        Edit(ASKED, 'if not run.has_key(said["key"]):', 'if not said["key"]:'),
        long=True,
    ),
    one(
        "an approval counts for every run",
        "one yes would open all later requests",
        (f"{RECORDED}test_an_approval_of_another_run_is_not_this_ones",),
        Edit(
            "ledger/changes/history.sql",
            " and detail ->> 'run' = %(run)s) as decided",
            " and %(run)s <> '') as decided",
        ),
        long=True,
    ),
    one(
        "what was not rehearsed is approved",
        "nobody has seen what it would do",
        (f"{HISTORY}test_what_has_changed_since_it_was_shown_is_not_taken_for_approved",),
        Edit(
            "steps/requests/history.py",
            'raise BadData(f"{name}: {shown.lane} {shown.request_id} was not rehearsed", next_command="clear the run")',
            "return",
        ),
        long=True,
    ),
]
