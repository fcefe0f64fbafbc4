"""Lists mutants of reap and upkeep, of who may open an attempt, and of a person's promotions."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

REAP = "tests/ledger/test_reap.py::"
SIGN = f"{REAP}test_each_sign_alone_that_an_attempt_cannot_commit_lets_its_table_go"
NOTHING_ALIVE = f"{REAP}test_reap_drops_what_dead_attempts_left_and_nothing_that_may_still_commit"
BUSY = f"{REAP}test_what_somebody_holds_is_left_and_named_and_the_others_are_done"
PREVIEW = f"{REAP}test_reap_ends_a_preview_whose_process_died_and_no_other"
UPKEEP = "tests/ledger/test_upkeep.py::"
FORGOTTEN = "tests/simulation/test_forgotten_deletions.py::"
BY_BATCH = "tests/ledger/test_by_batch.py::"
OPENING = "tests/ledger/test_opening.py::test_who_may_open_an_attempt"
PICK_UP = "tests/ledger/test_opening.py::test_an_attempt_that_is_not_ready_is_not_picked_up"
HAND_OVER = "tests/crash/test_hand_over.py::"
PROMOTED = "tests/ledger/test_promoted.py::"
RETURNED = "tests/ledger/test_forgotten.py::test_an_undone_forgetting_goes_on_where_the_pipeline_stopped"
EMPTIED = "0023_nobody_gains_rights.sql"
ASKED = "    execute format('select not exists (select from %s)', part)"
FENCE = "      and b.state = 'planned' and a.closed_at is null and a.token = b.token)\norder by 1"


def fenced(*signs: str) -> Edit:
    """Returns the query of dead staging that looks at these signs of life alone."""
    return Edit("ledger/batch/commit.sql", FENCE, f"      and {' and '.join(signs)})\norder by 1")


MUTANTS = [
    # Reap.
    one(
        "reap ends no zombie",
        "a COPY whose client stands still holds its table for ever",
        f"{REAP}test_reap_ends_the_session_of_a_zombie_and_of_nobody_else",
        Edit(
            "steps/upkeep/reap.py",
            "                end_stagers(cur, stager_of(table.strings[-1]))\n",
            "                pass\n",
        ),
        long=True,
    ),
    one(
        "reap ends every session that stages",
        "the newest attempt is at work",
        f"{REAP}test_reap_ends_the_session_of_a_zombie_and_of_nobody_else",
        Edit(
            "ledger/batch/commit.sql",
            "and application_name = %(name)s",
            "and left(application_name, 14) = left(%(name)s, 14)",
        ),
        long=True,
    ),
    one(
        "reap drops the staging of attempts that may commit",
        "their rows would be gone before the commit",
        (NOTHING_ALIVE, *(f"{SIGN}[{sign}]" for sign in ("the batch has a newer token", "the batch was abandoned"))),
        Edit("ledger/batch/commit.sql", FENCE, "      and b.state = 'committed')\norder by 1"),
        long=True,
    ),
    one(
        "reap leaves what dead attempts have staged",
        "bytes of records lie there for ever",
        (NOTHING_ALIVE, *(f"{SIGN}[{s}]" for s in ("the batch has a newer token", "the attempt was closed"))),
        fenced("b.batch_id > 0"),
        long=True,
    ),
    one(
        "the staging of an older attempt is left",
        "it can never commit",
        (f"{SIGN}[the batch has a newer token]",),
        fenced("b.state = 'planned'", "a.closed_at is null"),
        long=True,
    ),
    one(
        "the staging of a closed attempt is left",
        "it can never commit",
        (f"{SIGN}[the attempt was closed]",),
        fenced("b.state = 'planned'", "a.token = b.token"),
        long=True,
    ),
    one(
        "the staging of an abandoned batch is left",
        "it can never commit",
        (f"{SIGN}[the batch was abandoned]",),
        fenced("a.closed_at is null", "a.token = b.token"),
        long=True,
    ),
    one(
        "previews of dead processes stay",
        "they hold offsets that nobody will commit",
        (PREVIEW,),
        Edit("steps/upkeep/reap.py", "    _end_previews(conn)\n    with", "    with"),
        long=True,
    ),
    one(
        "requests of others are ended with the previews",
        "a replay whose process died goes on with the next run",
        (PREVIEW,),
        Edit(
            "ledger/changes/requests.sql",
            "where r.preview and r.closed_at is null\n  and case",
            "where r.closed_at is null\n  and case",
        ),
        long=True,
    ),
    one(
        "previews at work are ended",
        "somebody waits for what they show",
        (PREVIEW,),
        Edit("ledger/changes/requests.sql", "else b.lease_until < clock_timestamp() and", "else"),
        long=True,
    ),
    one(
        "a partition with rows is dropped",
        "an operator has put them there",
        f"{BY_BATCH}test_a_partition_stays_while_it_holds_a_row_or_its_batch_owns_offsets",
        Edit(
            f"ledger/migrations/{EMPTIED}",
            f"{ASKED} into is_empty;\n    if not is_empty then\n        return false;\n    end if;\n",
            "    is_empty := true;\n",
        ),
        Edit(
            f"ledger/migrations/{EMPTIED}",
            f"{ASKED} into is_empty;\n    if is_empty then\n        execute format('drop table",
            "    if is_empty then\n        execute format('drop table",
        ),
        long=True,
    ),
    # Upkeep.
    one(
        "what upkeep could not do is passed over in silence",
        "it would never be done",
        (BUSY,),
        Edit("steps/upkeep/busy.py", '        left.append(f"{what}: {refusal.message}")\n', "        del refusal\n"),
        long=True,
    ),
    one(
        "one busy pipeline ends the upkeep of the others",
        "they would wait for its next day",
        (BUSY,),
        Edit(
            "steps/upkeep/busy.py",
            "            done += work(name)\n",
            "            done += work(name)\n        if left:\n            break\n",
        ),
        long=True,
    ),
    one(
        "a stream that was busy is not told",
        "it would go unseen",
        f"{UPKEEP}test_a_pipeline_that_is_planned_meanwhile_is_merged_the_next_time",
        Edit(
            "steps/upkeep/coverage.py",
            'with left_out(f"{stream.topic}-{stream.partition}", left):',
            'with left_out(f"{stream.topic}-{stream.partition}", []):',
        ),
        long=True,
    ),
    one(
        "a topic that does not answer about deletions is not told",
        "they would be remembered for ever",
        f"{FORGOTTEN}test_a_topic_that_cannot_be_asked_is_left_and_named",
        Edit(
            "steps/upkeep/forget_deletions.py",
            '            left.append(f"{topic}: {refusal.message}")\n',
            "            del refusal\n",
        ),
        long=True,
    ),
    one(
        "a pipeline that was busy with deletions is not told",
        "they would be remembered for ever",
        f"{FORGOTTEN}test_a_pipeline_that_is_planned_meanwhile_is_left_for_the_next_time",
        Edit(
            "steps/upkeep/forget_deletions.py",
            'with left_out(f"{row.topic}-{row.partition}", left):',
            'with left_out(f"{row.topic}-{row.partition}", []):',
        ),
        long=True,
    ),
    one(
        "one run forgets all deletions of a stream",
        "a plan would wait for its lock again and again",
        f"{FORGOTTEN}test_a_run_forgets_portion_by_portion_and_no_more_than_its_share",
        Edit(
            "steps/upkeep/forget_deletions.py",
            "    for _ in range(portions):\n",
            "    for _ in range(portions + 1_000):\n",
        ),
        long=True,
    ),
    # Who may open an attempt, and with which one the next task goes on.
    one(
        "a batch that another holds is staged",
        "two processes would read it in turns for ever",
        tuple(f"{OPENING}[{case}]" for case in ("its planner holds it", "an attempt holds it")),
        Edit(
            "steps/attempt/opening.py",
            "        if is_live and owner != caller.owner",
            "        if not owner and owner != caller.owner",
        ),
        long=True,
    ),
    one(
        "the lease of the newest attempt keeps nobody out",
        "it holds the batch once the planner's lease is over",
        (f"{OPENING}[an attempt holds it]",),
        Edit("steps/attempt/opening.py", " + ([(newest.owner, newest.lease_is_live)] if newest else [])", ""),
        long=True,
    ),
    one(
        "nobody takes over from a process that is gone",
        "a batch would wait for a lease that nobody renews",
        (f"{OPENING}[its holder is gone]",),
        Edit("steps/attempt/opening.py", " and not is_gone(owner):", ":"),
        long=True,
    ),
    one(
        "a person's word does not take a batch over",
        "a batch would wait for a holder that hangs",
        (f"{OPENING}[a person takes it over]",),
        Edit("steps/attempt/opening.py", " and not caller.take_over and not is_gone", " and not is_gone"),
        long=True,
    ),
    one(
        "a committed batch is staged once more",
        "its rows are there",
        (f"{OPENING}[it is committed]",),
        Edit("steps/attempt/opening.py", "if batch.state == BatchState.COMMITTED:", 'if batch.state == "":'),
        Edit(
            "steps/attempt/opening.py",
            "if batch.state != BatchState.PLANNED:",
            "if batch.state == BatchState.ABANDONED:",
        ),
        long=True,
    ),
    one(
        "an abandoned batch is staged",
        "its offsets are somebody else's by now",
        (f"{OPENING}[it is abandoned]",),
        Edit("steps/attempt/opening.py", "if batch.state != BatchState.PLANNED:", 'if batch.state == "":'),
        long=True,
    ),
    one(
        "an abandoned batch is read",
        "Spark would work for nothing",
        f"{HAND_OVER}test_an_abandoned_batch_is_refused_before_spark_is_asked",
        Edit("steps/attempt/pick_up.py", "if batch.state != BatchState.PLANNED:", 'if batch.state == "":'),
        long=True,
    ),
    one(
        "an attempt that is not staged is picked up",
        "nobody knows what is in its table",
        tuple(f"{PICK_UP}[{state}]" for state in ("open", "superseded", "abandoned")),
        Edit(
            "steps/attempt/pick_up.py",
            "if newest.state not in READY_STATES:",
            'if newest.state == "":',
        ),
        long=True,
    ),
    one(
        "an attempt that failed is picked up",
        "its rows were judged, and refused",
        f"{HAND_OVER}test_an_attempt_that_data_has_failed_is_not_picked_up",
        Edit("steps/attempt/pick_up.py", "if newest.state == AttemptState.FAILED:", 'if newest.state == "":'),
        Edit(
            "steps/attempt/pick_up.py",
            "AttemptState.VALIDATED, AttemptState.COMMITTED})",
            "AttemptState.VALIDATED, AttemptState.COMMITTED, AttemptState.FAILED})",
        ),
        long=True,
    ),
    # A person promotes, and undoes a forgetting.
    one(
        "the same promotion is recorded each time it is asked for",
        "the first one says from which offsets on it holds",
        f"{PROMOTED}test_the_same_promotion_changes_nothing_and_a_second_one_supersedes",
        Edit(
            "steps/changes/promote.py",
            "if earlier and earlier.transform == transform:",
            'if earlier and transform == "":',
        ),
        long=True,
    ),
    one(
        "an undone forgetting leaves no row",
        "each decision says who took it and why; with forgotten_is_decided off, which hides it",
        (RETURNED,),
        Edit("steps/changes/forget.py", '        decisions.record(cur, pipeline, "remember", person)\n', ""),
        Drop("drop trigger forgotten_is_decided on lockstep.pipeline"),
        long=True,
    ),
]
