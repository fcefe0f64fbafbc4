"""Lists mutants of the identity of a log: incarnations, leader epochs, the last record, the point of a truncation."""

from __future__ import annotations

from mutants.mutant import Edit, one

HOUSE = "tests/simulation/test_one_log.py::"
ROWS = "tests/ledger/test_one_log.py::"
STALE = "tests/simulation/test_stale_looks.py::"
MIGRATION = "ledger/migrations/0081_read_by_another.sql"  # the newest guard_claimed_log
BROKEN = tuple(
    f"{HOUSE}test_a_log_that_grew_past_the_position_again_is_blocked_and_begun_at_the_truncation[{new}]"
    for new in (40, 41, 90)
)

MUTANTS = [
    one(
        "an older incarnation may be claimed",
        "its offsets hold other records in today's log",
        tuple(
            f"{ROWS}test_no_lane_claims_offsets_of_an_older_incarnation[{lane}]" for lane in ("live", "fill", "replay")
        ),
        Edit(
            MIGRATION,
            "where lockstep.is_replaced(r.stream_id) or lower(r.offsets)",
            "where lower(r.offsets)",
        ),
        long=True,
    ),
    one(
        "offsets before a truncation may be claimed",
        "the older incarnation has read them",
        f"{ROWS}test_no_lane_claims_offsets_before_the_truncation",
        Edit(MIGRATION, " or lower(r.offsets) < lockstep.read_before(r.stream_id)", ""),
        long=True,
    ),
    one(
        "a partition without a new leader is compared too",
        "a usual plan would read the log",
        f"{HOUSE}test_a_clean_election_costs_one_comparison",
        Edit(
            "core/planning/blocked.py",
            "bounds.leader_epoch not in {None, stream.leader_epoch}",
            "bounds.leader_epoch is not None",
        ),
        long=True,
    ),
    one(
        "the record's leader epoch is not compared",
        "a log that grew past the position again would be read on",
        BROKEN,
        Edit("steps/batch/one_log.py", "if epoch is not None and epoch > stream.leader_epoch:", "if epoch is None:"),
        long=True,
    ),
    one(
        "the record's time is not compared",
        "epochs that began anew tell nothing",
        f"{HOUSE}test_a_record_with_another_timestamp_is_another_record",
        Edit("steps/batch/one_log.py", "and not _is_within(record, known)", "and False"),
        long=True,
    ),
    one(
        "the epoch of a log that is shorter than the position is kept",
        "the truncation would be noticed by nobody when the log has grown again",
        f"{HOUSE}test_a_batch_that_is_gone_on_with_while_the_log_is_too_short_hides_no_truncation",
        Edit("steps/batch/one_log.py", " and s.position <= view[s.topic_partition].stable_end]", "]"),
        long=True,
    ),
    one(
        "a request reads a log that lost its end",
        "a replay would take other records for those that it replaces",
        BROKEN,
        Edit("steps/requests/requests.py", "    require_one_log(conn, broker, pipeline, seen)\n", ""),
        long=True,
    ),
    one(
        "a point of truncation is guessed without a leader epoch",
        "new records would be left out, or old ones read again",
        f"{HOUSE}test_a_stream_without_a_leader_epoch_is_not_guessed_about",
        Edit(
            "steps/batch/one_log.py",
            '    if known is None or now is None:\n        return None, "no leader epoch was kept for the stream"\n',
            '    if known is None or now is None:\n        return min(stream.position, bounds.stable_end), ""\n',
        ),
        long=True,
    ),
    one(
        "the epoch of a range's end is not compared after the read",
        "the batch would commit records of a log that nobody planned on",
        f"{HOUSE}test_a_range_whose_end_is_replaced_while_it_is_read_is_not_committed",
        Edit(
            "steps/batch/same_log.py",
            "if written is None or written > epoch:",
            "if written is not None and written < 0:",
        ),
        long=True,
    ),
    one(
        "a truncated log begins at its end",
        "the new records that stand there already would be left out",
        tuple(f"{HOUSE}test_the_successor_in_a_truncated_log_begins_at_the_truncation[{new}]" for new in (20, 39)),
        Edit("steps/batch/one_log.py", "        elif epoch > known:\n            high = middle\n", ""),
        long=True,
    ),
    one(
        "a truncated log begins below an open transaction",
        "its records may have been read",
        f"{HOUSE}test_a_truncation_above_an_open_transaction_is_not_guessed_about",
        Edit("steps/batch/one_log.py", "if low > bounds.stable_end:", "if low > bounds.stable_end + 100:"),
    ),
    one(
        "what an older incarnation has read is a hole",
        "a fill would be told to read it again",
        f"{HOUSE}test_what_an_older_incarnation_has_read_is_no_hole",
        Edit("ledger/views/reading.sql", "lockstep.read_before(s.stream_id))", "0)"),
        long=True,
    ),
    one(
        "a plan goes by a look at a stream that moved since",
        "the epoch would be kept for records that nobody compared",
        f"{STALE}test_a_plan_looks_again_at_a_stream_that_moved_since_its_look",
        Edit("steps/batch/plan.py", "        if seen.is_stale(streams, view):\n            return None\n", ""),
        long=True,
    ),
    one(
        "a replay's plan goes by a look at a stream that moved since",
        "the epoch would be kept for records that nobody compared",
        f"{STALE}test_the_plan_of_a_replay_looks_again_at_a_stream_that_moved_since_its_look",
        Edit(
            "steps/requests/plan_request.py", "        if seen.is_stale(streams, view):\n            return None\n", ""
        ),
        long=True,
    ),
    one(
        "a skip goes by a look at a stream that moved since",
        "it would pass over a log that lost its end",
        f"{STALE}test_a_skip_passes_over_nothing_when_a_stream_moved_since_its_look",
        Edit(
            "steps/changes/skip.py",
            "if seen.is_stale(open_streams(cur, pipeline.name), view):",
            "if seen.is_stale((), view):",
        ),
        long=True,
    ),
    one(
        "no look is ever stale",
        "the epoch would be kept for records that nobody compared",
        f"{STALE}test_a_plan_looks_again_at_a_stream_that_moved_since_its_look "
        f"{STALE}test_the_plan_of_a_replay_looks_again_at_a_stream_that_moved_since_its_look "
        f"{STALE}test_a_skip_passes_over_nothing_when_a_stream_moved_since_its_look",
        Edit(
            "steps/batch/one_log.py",
            "self.compared.get(s.stream_id) != (s.position, s.leader_epoch) for s",
            "s.stream_id not in self.compared for s",
        ),
        long=True,
    ),
    one(
        "a leader epoch goes back",
        "records under the newer one would be taken for a truncation",
        f"{STALE}test_a_leader_epoch_that_was_kept_does_not_go_back",
        Edit("steps/batch/one_log.py", " if s.leader_epoch is None or epoch > s.leader_epoch]", "]"),
        long=True,
    ),
    one(
        "rejects of a log that lost its end are read again",
        "other records would take their place",
        f"{STALE}test_rejects_of_a_log_that_lost_its_end_are_not_read_again",
        Edit("steps/requests/redrive.py", "    require_one_log(conn, broker, pipeline, view)\n", ""),
        long=True,
    ),
    one(
        "a resumed batch believes one answer of a broker that the log is shorter",
        "a stale broker would stop the pipeline",
        tuple(
            f"{HOUSE}test_a_batch_is_resumed_when_answers_of_a_stale_broker_end_within_it[{stale}]" for stale in (1, 2)
        ),
        Edit(
            "core/planning/blocked.py",
            '--partition {where.partition} --reason ...",\n                readings=3,',
            '--partition {where.partition} --reason ...",\n                readings=1,',
        ),
        long=True,
    ),
]
