"""Lists mutants of a person's decisions: to skip, abandon, pause, or accept a loss."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

ABANDON = "tests/ledger/test_decisions.py::"
LOSS = "tests/ledger/test_accept_loss.py::"
NOT_LOST = f"{LOSS}test_what_is_not_lost_is_refused_and_changes_nothing"
ONE_LOG = "tests/simulation/test_one_log.py::"
BROKEN = tuple(
    f"{ONE_LOG}test_a_log_that_grew_past_the_position_again_is_blocked_and_begun_at_the_truncation[{new}]"
    for new in (40, 41, 90)
)
SKIP = "tests/ledger/test_skip.py::"
LOOKS = "tests/ledger/test_second_looks.py::"
ELSEWHERE = tuple(f"{LOOKS}test_a_position_that_stands_elsewhere_is_not_moved[{begin}]" for begin in (8, 12))
CANNOT = f"{SKIP}test_a_skip_that_cannot_be_is_refused_and_changes_nothing"

MUTANTS = [
    # A person skips.
    one(
        "a skip of another log",
        "its offsets mean nothing here",
        (f"{CANNOT}[on another log]",),
        Edit(
            "steps/changes/skip.py",
            "        refuse_another_log(stream, pipeline, (view.cluster_id, view.topic, view.topic_id))\n    seen",
            "        pass\n    seen",
        ),
        long=True,
    ),
    one(
        "a skip that would go back says nothing",
        "the person means a replay",
        (f"{CANNOT}[back]",),
        Edit("steps/changes/skip.py", "        if goal < position:", "        if goal < 0:"),
        long=True,
    ),
    one(
        "what is lost is skipped",
        "a fill could never bring it",
        (f"{CANNOT}[over what is lost]",),
        Edit("steps/changes/skip.py", "if gap and gap[0] < max(goal, position + 1):", "if gap and position < 0:"),
        long=True,
    ),
    one(
        "a skip leaves no row",
        "each decision says who took it and why",
        f"{SKIP}test_a_skip_covers_what_it_passes_and_leaves_a_row",
        Edit("steps/changes/skip.py", '            decisions.record(cur, pipeline.name, "skip", person, detail)\n', ""),
        long=True,
    ),
    one(
        "a skip leaves batches at work",
        "they could never commit",
        f"{SKIP}test_a_skip_abandons_the_batches_that_work_there_and_no_others",
        Edit(
            "steps/changes/skip.py",
            "abandoned = lock_and_abandon(cur, _in_the_way(cur, streams, goals), person)",
            "abandoned: list[int] = []",
        ),
        long=True,
    ),
    one(
        "a skip goes over a log that lost its end",
        "what stands there now would be left out as if it had been seen",
        BROKEN,
        Edit(
            "steps/changes/skip.py",
            "if broken := seen.blocked(pipeline.name, before):",
            "if (broken := None) is not None:",
        ),
        long=True,
    ),
    one(
        "a skip keeps the claims of what it abandons",
        "a fill could not read what was skipped; with the constraint off, which hides it",
        f"{SKIP}test_a_skip_abandons_the_batches_that_work_there_and_no_others",
        Edit("steps/changes/skip.py", "        decisions.release_claims(cur, abandoned)\n", ""),
        Drop("drop trigger committed_whole on lockstep.batch"),
        long=True,
    ),
    # A person abandons.
    one(
        "a decision does not take the pipeline's lock",
        "a plan or a commit under way would not know of it",
        f"{ABANDON}test_a_decision_does_not_wait_for_ever_and_says_so",
        Edit(
            "steps/changes/decisions.py",
            "            lock_pipeline(cur, pipeline, even_forgotten=even_forgotten)\n            yield cur",
            "            yield cur",
        ),
        long=True,
    ),
    one(
        "a batch is abandoned twice",
        "the second decision would say what the first one did",
        f"{ABANDON}test_abandoning_twice_changes_nothing_more",
        Edit(
            "steps/changes/decisions.py",
            "        if batch.state == BatchState.ABANDONED:",
            '        if batch.state == "":',
        ),
        long=True,
    ),
    one(
        "what is committed is abandoned",
        "its rows are there",
        f"{ABANDON}test_what_is_committed_is_not_abandoned",
        Edit("steps/changes/decisions.py", "if batch.state == BatchState.COMMITTED:", 'if batch.state == "":'),
        long=True,
    ),
    one(
        "an abandoned batch leaves its request open",
        "the same batch would be planned again",
        f"{ABANDON}test_abandon_closes_the_request_of_its_batch",
        Edit("steps/changes/decisions.py", "        requests.close_requests_of(cur, batches=[batch_id])\n", ""),
        long=True,
    ),
    one(
        "an abandoned batch keeps its claims",
        "its offsets could not be planned again; with its constraint off, which hides it",
        f"{ABANDON}test_abandon_fences_the_attempt_frees_the_offsets_and_closes_the_batch",
        Edit(
            "steps/changes/decisions.py",
            "        decisions.release_claims(cur, [batch_id])\n",
            "",
        ),
        Drop("drop trigger committed_whole on lockstep.batch"),
        long=True,
    ),
    one(
        "an abandon draws no token",
        "an attempt that compares the token alone would commit",
        f"{ABANDON}test_abandon_fences_the_attempt_frees_the_offsets_and_closes_the_batch",
        Edit(
            "ledger/changes/decisions.sql",
            ", token = nextval('lockstep.token_seq')\nwhere batch_id",
            "\nwhere batch_id",
        ),
        long=True,
    ),
    one(
        "an abandon leaves no row",
        "each decision says who took it and why",
        f"{ABANDON}test_abandon_fences_the_attempt_frees_the_offsets_and_closes_the_batch",
        Edit(
            "steps/changes/decisions.py",
            '        decisions.record(cur, pipeline, "abandon", person, {"batch_id": batch_id})\n',
            "",
        ),
        long=True,
    ),
    # A person pauses.
    one(
        "a pause is written down each time it is asked for",
        "the first one is when it began, and who began it",
        f"{ABANDON}test_pause_and_unpause_turn_the_switch_once_and_leave_a_row_each",
        Edit("ledger/changes/decisions.sql", " and paused <> %(paused)s", ""),
        long=True,
    ),
    one(
        "a pause stops nothing",
        "a person wants no new batch",
        ("tests/core/test_planning.py::test_decisions[paused]",),
        Edit("core/planning/live.py", "    if situation.pause:", "    if situation.pause == '':"),
        long=True,
    ),
    # A person accepts a loss.
    one(
        "an accepted loss leaves no row",
        "each decision says who took it and why",
        f"{LOSS}test_a_loss_is_covered_and_the_position_lies_behind_it",
        Edit("ledger/changes/decisions.py", '    record(cur, pipeline, "accept-loss", person, detail)\n', ""),
        long=True,
    ),
    one(
        "what can still be read is accepted as lost",
        "records would be left out for nothing",
        (f"{NOT_LOST}[offsets3-bounds3-the log starts at 0-lockstep run orders]",),
        Edit("steps/changes/decisions.py", "if passed and lost.until_offset <= log_start and not held:", "if passed:"),
        long=True,
    ),
    one(
        "a loss on another log",
        "its offsets mean nothing here",
        f"{LOSS}test_a_loss_on_a_recreated_topic_is_a_matter_for_retire",
        Edit(
            "steps/changes/decisions.py",
            "        refuse_another_log(stream, pipeline, view.log_of(where.topic))\n",
            "",
        ),
        long=True,
    ),
    one(
        "a loss abandons batches that do not touch it",
        "their work would be for nothing",
        f"{LOSS}test_unfinished_batches_of_every_lane_that_touch_the_loss_are_abandoned_and_no_others",
        Edit(
            "ledger/changes/decisions.sql",
            "where stream_id = any(%(streams)s) and offsets && int8range(%(from_offset)s, %(until_offset)s) order",
            "where stream_id = any(%(streams)s) order",
        ),
        long=True,
    ),
    one(
        "a loss keeps the claims of what it abandons",
        "the offsets could not be planned again; with the constraint off, which hides it",
        f"{LOSS}test_unfinished_batches_of_every_lane_that_touch_the_loss_are_abandoned_and_no_others",
        Edit("steps/changes/decisions.py", "        decisions.release_claims(cur, abandoned)\n", ""),
        Drop("drop trigger committed_whole on lockstep.batch"),
        long=True,
    ),
    one(
        "a loss may begin past the position",
        "what lies between would stay open; with no_gap off, which hides it",
        (
            f"{NOT_LOST}[offsets1-bounds1-the position is 10, and what lies between would stay open---from 10 --until 25]",
        ),
        Edit("steps/changes/decisions.py", "passed = lost.from_offset <= position and _all", "passed = _all"),
        Drop("drop trigger no_gap on lockstep.stream"),
        long=True,
    ),
    one(
        "what a batch covers is accepted as lost",
        "its rows are there; with no_offset_twice off, which hides it",
        (f"{NOT_LOST}[offsets2-bounds2-the position is 10, and what lies below it is covered---from 10 --until 25]",),
        Edit(
            "steps/changes/decisions.py",
            "    if passed and lost.until_offset <= log_start and not held:",
            "    if lost.until_offset <= log_start and not held:",
        ),
        Drop("alter table lockstep.coverage drop constraint no_offset_twice"),
        long=True,
    ),
    one(
        "a loss takes what was skipped around it away",
        "it could not be filled any more; with no_gap off, which hides it",
        f"{LOSS}test_what_was_skipped_and_then_deleted_is_lost_and_the_rest_of_it_stays_skipped",
        Edit("ledger/changes/decisions.py", "            if begin < end:\n", "            if begin < 0:\n"),
        Drop("drop trigger no_gap on lockstep.coverage"),
        long=True,
    ),
    # What is looked at again, under the locks.
    one(
        "a batch that committed meanwhile is told as abandoned",
        "the decision would say of its rows that they are not there",
        f"{LOOKS}test_a_batch_that_committed_while_a_skip_waited_for_it_is_not_told_as_abandoned",
        Edit(
            "steps/changes/decisions.py",
            "for row in decisions.lock_batches(cur, batches) if row.state == BatchState.PLANNED]",
            "for row in decisions.lock_batches(cur, batches)]",
        ),
        long=True,
    ),
    one(
        "a closed stream is passed over",
        "its successor begins where it stood; with closed_once off, which hides it",
        f"{LOOKS}test_a_stream_that_growth_closed_while_a_skip_waited_keeps_its_position",
        Edit(
            "ledger/changes/decisions.sql", "position = %(position)s and retired_at is null", "position = %(position)s"
        ),
        Drop("drop trigger closed_once on lockstep.stream"),
        long=True,
    ),
    one(
        "a position is passed over wherever it stands",
        "what lies between would be left out; with no_gap off, which hides it",
        ELSEWHERE,
        Edit(
            "ledger/changes/decisions.sql",
            "and position = %(position)s and retired_at is null",
            "and %(position)s >= 0 and retired_at is null",
        ),
        Drop("drop trigger no_gap on lockstep.stream"),
        long=True,
    ),
    one(
        "a position that did not move counts as moved",
        "offsets past it would be covered; with no_gap off, which hides it",
        (*ELSEWHERE, f"{LOOKS}test_a_stream_that_growth_closed_while_a_skip_waited_keeps_its_position"),
        Edit("ledger/changes/decisions.py", "    if cur.rowcount != 1:", "    if cur.rowcount > 1:"),
        Drop("drop trigger no_gap on lockstep.coverage"),
        long=True,
    ),
]
