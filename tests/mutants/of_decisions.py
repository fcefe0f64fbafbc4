"""Mutants of what only a person decides, and of upkeep."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

ABANDON = "tests/ledger/test_decisions.py::"
LOSS = "tests/ledger/test_accept_loss.py::"
NOT_LOST = f"{LOSS}test_what_is_not_lost_is_refused_and_changes_nothing"
RETIRE = "tests/ledger/test_retire.py::"
UPKEEP = "tests/ledger/test_upkeep.py::"
SKIP = "tests/ledger/test_skip.py::"
CANNOT = f"{SKIP}test_a_skip_that_cannot_be_is_refused_and_changes_nothing"

MUTANTS = [
    # A person skips.
    one(
        "a skip of another log",
        "its offsets mean nothing here",
        (f"{CANNOT}[on another log]",),
        Edit(
            "steps/skip.py",
            "        refuse_another_log(stream, pipeline, (view.cluster_id, view.topic, view.topic_id))\n    goals",
            "        pass\n    goals",
        ),
        long=True,
    ),
    one(
        "a skip that would go back says nothing",
        "the person means a replay",
        (f"{CANNOT}[back]",),
        Edit("steps/skip.py", "if exact and goal < position:", "if exact and goal < 0:"),
        long=True,
    ),
    one(
        "what is lost is skipped",
        "a fill could never bring it",
        (f"{CANNOT}[over what is lost]",),
        Edit("steps/skip.py", "if position < bounds.log_start:", "if position < 0:"),
        long=True,
    ),
    one(
        "a skip leaves no row",
        "each decision says who took it and why",
        f"{SKIP}test_a_skip_covers_what_it_passes_and_leaves_a_row",
        Edit("steps/skip.py", '            decisions.record(cur, pipeline.name, "skip", person, detail)\n', ""),
    ),
    one(
        "a skip leaves batches at work",
        "they could never commit",
        f"{SKIP}test_a_skip_abandons_the_batches_that_work_there_and_no_others",
        Edit(
            "steps/skip.py",
            "abandoned = lock_and_abandon(cur, _in_the_way(cur, streams, goals), person)",
            "abandoned: list[int] = []",
        ),
        long=True,
    ),
    # A person abandons.
    one(
        "what is committed is abandoned",
        "its rows are there",
        f"{ABANDON}test_what_is_committed_is_not_abandoned",
        Edit("steps/decisions.py", 'if batch.state == "committed":', 'if batch.state == "":'),
        long=True,
    ),
    one(
        "an abandoned batch leaves its request open",
        "the same batch would be planned again",
        f"{ABANDON}test_abandon_closes_the_request_of_its_batch",
        Edit("steps/decisions.py", "        requests.close_requests_of(cur, batches=[batch_id])\n", ""),
    ),
    one(
        "an abandoned batch keeps its claims",
        "its offsets could not be planned again; with its constraint off, which hides it",
        f"{ABANDON}test_abandon_fences_the_attempt_frees_the_offsets_and_closes_the_batch",
        Edit(
            "steps/decisions.py",
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
            "ledger/decisions.sql",
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
            "steps/decisions.py",
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
        Edit("ledger/decisions.sql", " and paused <> %(paused)s", ""),
        long=True,
    ),
    one(
        "a pause stops nothing",
        "a person wants no new batch",
        ("tests/core/test_planning.py::test_decisions[paused]",),
        Edit("core/planning.py", "    if situation.pause:", "    if situation.pause == '':"),
        long=True,
    ),
    # A person accepts a loss.
    one(
        "an accepted loss leaves no row",
        "each decision says who took it and why",
        f"{LOSS}test_a_loss_is_covered_and_the_position_lies_behind_it",
        Edit("steps/decisions.py", '        decisions.record(cur, pipeline.name, "accept-loss", person, detail)\n', ""),
        long=True,
    ),
    one(
        "what can still be read is accepted as lost",
        "records would be left out for nothing",
        (f"{NOT_LOST}[offsets3-bounds3-the log starts at 0-lockstep run orders]",),
        Edit("steps/decisions.py", "if passed and lost.until_offset <= log_start:", "if passed:"),
    ),
    one(
        "a loss on another log",
        "its offsets mean nothing here",
        f"{LOSS}test_a_loss_on_a_recreated_topic_is_a_matter_for_retire",
        Edit(
            "steps/decisions.py",
            "        refuse_another_log(stream, pipeline, (view.cluster_id, view.topic, view.topic_id))\n        if partition",
            "        if partition",
        ),
        long=True,
    ),
    # A person retires.
    one(
        "a log that ends within an unfinished batch is healthy",
        "the batch could never be read",
        f"{RETIRE}test_a_log_that_ends_within_an_unfinished_batch_is_truncated_too",
        Edit("steps/retire.py", "if end < claimed_until:", "if end < 0:"),
        long=True,
    ),
    one(
        "requests about a retired stream stay open",
        "they would read another log's records",
        f"{RETIRE}test_requests_about_a_retired_stream_are_closed_and_no_others",
        Edit("steps/retire.py", "        close_requests_of(cur, streams=of_partitions)\n", ""),
    ),
    one(
        "a stream is retired whatever moved meanwhile",
        "a commit has come between",
        f"{RETIRE}test_nothing_is_retired_when_a_commit_moved_the_streams_meanwhile",
        Edit("steps/retire.py", "{s.stream_id: s.position for s in sick} or not (", "{s: 0 for s in ids} and not ("),
        long=True,
    ),
    one(
        "a stream is retired twice",
        "its successor would be opened twice",
        f"{RETIRE}test_nothing_is_retired_twice_by_two_persons",
        Edit(
            "steps/retire.py",
            "set(ids) <= {s.stream_id for s in open_streams(cur, pipeline.name)}",
            "set(ids) <= {*ids}",
        ),
        long=True,
    ),
    one(
        "a retirement leaves no row",
        "each decision says who took it and why",
        f"{RETIRE}test_a_recreated_topic_is_begun_anew_in_all_its_partitions_and_one_epoch",
        Edit("steps/retire.py", '        decisions.record(cur, pipeline.name, "retire", person, detail)\n', ""),
        long=True,
    ),
    # The topic grows.
    one(
        "growth leaves no row",
        "from here on a key may live in another partition",
        "tests/house/test_growth.py::test_growth_is_recorded_and_opens_an_epoch_in_every_partition",
        Edit("steps/plan.py", "        ledger.insert_growth(cur, pipeline.name, caller.owner, new)\n", ""),
        long=True,
    ),
    # Upkeep.
    one(
        "what an open request is about is merged",
        "the request would find other segments than it was shown",
        f"{UPKEEP}test_what_a_batch_claims_and_what_an_open_request_is_about_is_left_alone",
        Edit("ledger/upkeep.sql", "r.closed_at is null and w.stream_id", "false and w.stream_id"),
        long=True,
    ),
    one(
        "what a batch claims is merged",
        "its commit would not find what it replaces",
        f"{UPKEEP}test_exactly_the_free_neighbours_below_log_start_are_merged",
        Edit(
            "ledger/upkeep.sql",
            "not exists (select 1 from lockstep.claim k where k.stream_id = c.stream_id and k.offsets && c.offsets)",
            "true",
        ),
        long=True,
    ),
    one(
        "what was filled before the start is merged with what follows",
        "the stream's own coverage begins at its start",
        f"{UPKEEP}test_what_was_filled_before_the_start_is_not_merged_with_what_follows_it",
        Edit("ledger/upkeep.sql", "upper(c.offsets) <= s.start_offset as before_start", "false as before_start"),
        long=True,
    ),
    one(
        "another log's start says what is merged",
        "its offsets mean nothing here",
        f"{UPKEEP}test_a_log_that_cannot_be_asked_or_is_another_one_is_left_as_it_is",
        Edit(
            "steps/upkeep.py",
            "if (s.cluster_id, s.topic_id) == (view.cluster_id, view.topic_id) and s.partition",
            "if s.partition",
        ),
        long=True,
    ),
]
