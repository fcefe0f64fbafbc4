"""Lists mutants of the guards of a pipeline that moves to a copy of its topic."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

LEDGER = "tests/ledger/test_constraints_of_moves.py::"
PURE = "tests/core/test_moving.py::"
CLI = "tests/cli/test_move.py::"
MOVES = f"{CLI}test_a_pipeline_moves_under_a_running_producer_and_each_record_is_there_once"
BACK = f"{CLI}test_a_move_is_applied_as_shown_once_and_goes_back_while_nothing_was_committed"
REFUSED = f"{CLI}test_a_copy_that_proves_no_place_is_refused_by_partition_and_offsets"
STAYS = f"{LEDGER}test_a_topic_stays_with_its_line_and_has_one_open_stream_and_one_epoch_there"
NEVER = f"{LEDGER}test_a_moved_stream_is_never_read_or_committed_again"
AS_DECIDED = f"{LEDGER}test_at_the_commit_each_open_stream_goes_on_for_a_closed_one_as_decided"
ALIKE = f"{PURE}test_two_records_look_alike_only_if_key_value_time_and_headers_are_the_same"
DIGEST = f"{PURE}test_the_digest_is_of_both_logs_and_every_offset_and_of_nothing_that_grows"
FEW = f"{PURE}test_few_records_prove_a_place_only_where_they_are_all_that_was_written"
MIGRATION = "ledger/migrations/0057_moved_topics.sql"

MUTANTS = [
    one(
        "a pipeline moves while a request is open",
        "the database refuses it, and nobody would say which request that is and how to finish it",
        f"{CLI}test_a_pipeline_with_an_open_request_stays_and_the_request_is_named",
        Edit("steps/changes/move.py", "for request in requests.open_requests(cur, name):", "for request in ():"),
        long=True,
    ),
    one(
        "a pipeline moves before erased records that wait",
        "nothing would keep them out where they were copied to",
        f"{CLI}test_erased_records_that_wait_are_passed_before_the_move_and_stay_out",
        Edit("steps/changes/move.py", "if at := erasures.waiting_erasure(cur, name):", "if at := None:"),
        long=True,
    ),
    one(
        "move_is_told dropped",
        "a decision would not say where the streams go on",
        f"{LEDGER}test_a_decision_to_move_says_digest_log_and_offsets",
        Drop("alter table lockstep.decision drop constraint move_is_told"),
        long=True,
    ),
    one(
        "moved_at_rest dropped",
        "a batch of the old topic would be left with a closed stream",
        f"{LEDGER}test_nothing_moves_while_a_batch_or_a_request_is_not_finished",
        Drop("drop trigger moved_at_rest on lockstep.decision"),
        long=True,
    ),
    one(
        "moved_as_decided dropped",
        "a stream could begin elsewhere than the decision says",
        AS_DECIDED,
        Drop("drop trigger moved_as_decided on lockstep.decision"),
        long=True,
    ),
    one(
        "moved_by_decision dropped",
        "another topic would be read in the place of the first, and no row would say so",
        f"{LEDGER}test_a_stream_goes_on_in_another_topic_by_a_decision_that_names_its_offset",
        Drop("drop trigger moved_by_decision on lockstep.stream"),
        long=True,
    ),
    one(
        "first_topic_is_another dropped",
        "one line of logs would have two names",
        STAYS,
        Drop("alter table lockstep.stream drop constraint first_topic_is_another"),
        long=True,
    ),
    one(
        "one_open_stream_a_line dropped",
        "a topic and its copy would be read side by side, and each record twice",
        AS_DECIDED,
        Drop("drop index lockstep.one_open_stream_a_line"),
        long=True,
    ),
    one(
        "one_epoch_a_line dropped",
        "records of a topic and of its copy would have no order",
        STAYS,
        Drop("drop index lockstep.one_epoch_a_line"),
        long=True,
    ),
    one(
        "an earlier decision lets a stream go on",
        "a closed log would be read again without a decision",
        f"{LEDGER}test_no_earlier_decision_lets_a_stream_go_on",
        Edit(
            "ledger/migrations/0077_ranges_looked_up_one_by_one.sql",
            "= (\n            select max(n.decision_id) from",
            "in (\n            select n.decision_id from",
        ),
        long=True,
    ),
    one(
        "a stream that was closed before counts as moved",
        "a successor would begin behind records that nothing has read",
        f"{LEDGER}test_a_stream_that_was_closed_before_is_not_what_moves",
        Edit(MIGRATION, "o.retired_at >= now()", "o.retired_at is not null"),
        long=True,
    ),
    one(
        "a moved stream can be read again",
        "a replay would bring records of the old topic beside those of the copy",
        NEVER,
        Edit(
            MIGRATION,
            "and coalesce(n.first_topic, n.topic) = coalesce(s.first_topic, s.topic)\n            and n.partition",
            "and n.topic = s.topic and n.partition",
        ),
        long=True,
    ),
    one(
        "copies of what was read can be filled",
        "a fill below the place of the move would write each record a second time",
        NEVER,
        Edit("ledger/migrations/0081_read_by_another.sql", "d.kind = 'move'", "d.kind = 'none'"),
        long=True,
    ),
    one(
        "two copies of what was read are as good as one",
        "records between the two would be read twice, or never",
        f"{PURE}test_two_copies_of_what_was_read_are_refused_and_both_are_named",
        Edit("core/changes/moving.py", "if len(found) > 1:", "if len(found) > 9:"),
        long=True,
    ),
    one(
        "one record proves a place",
        "a value that repeats would lead to another place",
        f"{PURE}test_a_compacted_topic_may_lack_what_lies_farther_back",
        Edit("core/changes/moving.py", "LEAST_MATCHED = 20", "LEAST_MATCHED = 1"),
        long=True,
    ),
    one(
        "a record between those that were read is passed over",
        "what a producer sent to the copy would never be read",
        f"{PURE}test_a_record_that_a_producer_wrote_between_them_is_not_passed_over",
        Edit("core/changes/moving.py", "and not (match.at_start or compacts)", "and not match.matched"),
        long=True,
    ),
    one(
        "records before the whole of what was read are passed over",
        "what a producer sent to the copy first would never be read",
        FEW,
        Edit("core/changes/moving.py", "if trail.is_whole and not match.at_start:", "if not trail.prints:"),
        long=True,
    ),
    one(
        "a few records prove a place in a copy without its beginning",
        "a copy that began late would be taken for whole",
        FEW,
        Edit("core/changes/moving.py", "if bounds.log_start and len", "if bounds.log_start < 0 and len"),
        long=True,
    ),
    one(
        "a copy without its beginning holds all of what nothing has read",
        "the first records would be lost",
        f"{PURE}test_where_nothing_was_read_the_copy_must_begin_at_its_first_offset",
        Edit("core/changes/moving.py", "        if bounds.log_start:\n", "        if bounds.log_start < 0:\n"),
        long=True,
    ),
    one(
        "records are the same whatever their time",
        "a value that is sent every hour would be one record",
        ALIKE,
        Edit("core/changes/moving.py", "None if stamp is None else str(stamp).encode()", "b''"),
        long=True,
    ),
    one(
        "what follows may lack records",
        "a copy that was stopped would lose what the old topic holds behind the position",
        f"{PURE}test_records_of_producers_may_stand_between_those_of_the_copy_that_follow",
        Edit("core/changes/moving.py", "            return offset, count", "            continue"),
        long=True,
    ),
    one(
        "the digest is not of the positions",
        "what was read since would be read twice",
        DIGEST,
        Edit("core/changes/moving.py", "each.stream.stream_id, each.stream.position]", "each.stream.stream_id]"),
        long=True,
    ),
    one(
        "a move takes any digest",
        "something else would be done than was shown",
        BACK,
        Edit("steps/changes/move.py", "    if shown.digest != digest:", "    if not digest:"),
        long=True,
    ),
    one(
        "a pipeline moves into more or fewer partitions",
        "records of a key would lie where nothing looks for them",
        REFUSED,
        Edit("steps/changes/move.py", "if read != there.bounds.keys():", "if not read:"),
        long=True,
    ),
    one(
        "what the old topic holds behind the position is not looked for",
        "a truncated copy would be taken for whole",
        REFUSED,
        Edit("steps/topics/copied.py", "    if lacking is not None:", "    if lacking == -1:"),
        long=True,
    ),
    one(
        "verify does not look for what followed a move",
        "records that a stopped mirror has left in the old topic would be missed by nobody",
        BACK,
        Edit("steps/proof/verify_moves.py", "        if missing is None:\n", "        if count is not None:\n"),
        long=True,
    ),
    one(
        "the last definition binds a pipeline that has moved",
        "the topic that a decision names would be refused",
        MOVES,
        Edit(
            "ledger/batch/plan.sql", "m.kind = 'move' and m.at > b.closed_at", "m.kind = 'none' and m.at > b.closed_at"
        ),
        long=True,
    ),
    one(
        "a topic that the pipeline moved to is a second one",
        "each key that stands in both would be refused",
        MOVES,
        Edit(
            "targets/upsert.sql",
            "<> coalesce(to_jsonb(s.*) ->> 'first_topic', to_jsonb(s.*) ->> 'topic')) as of_several_topics",
            "<> to_jsonb(s.*) ->> 'topic') as of_several_topics",
        ),
        Edit(
            "targets/upsert.sql",
            "select coalesce(to_jsonb(o.*) ->> 'first_topic', to_jsonb(o.*) ->> 'topic')\n        from",
            "select to_jsonb(o.*) ->> 'topic' from",
        ),
        long=True,
    ),
    one(
        "growth forgets the line of a topic",
        "a pipeline that has moved could not read a new partition",
        f"{LEDGER}test_a_topic_that_grows_after_a_move_keeps_line_incarnation_and_the_order_of_epochs",
        Edit("ledger/batch/streams.sql", "    select o.first_topic from", "    select null from"),
        long=True,
    ),
    one(
        "a log that the pipeline came back to is not compared",
        "verify would leave out what was read before both moves",
        BACK,
        Edit("ledger/batch/one_log.sql", " and n.start_offset < s.position", ""),
        long=True,
    ),
    one(
        "lineage knows the newest incarnation alone",
        "what was read before both moves would have no batch",
        BACK,
        Edit("ledger/views/tracing.sql", "order by s.start_offset > %(offset)s::bigint, s.inc", "order by s.inc"),
        long=True,
    ),
    one(
        "a topic that a move has left is read again",
        "the database would refuse it with a line that helps nobody",
        BACK,
        Edit("steps/topics/open_topics.py", " or topic_moved(pipeline.name, left)", ""),
        long=True,
    ),
]
