"""Lists mutants of retire, of a topic's growth, and of upkeep."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

RETIRE = "tests/ledger/test_retire.py::"
HEALTHY = f"{RETIRE}test_a_healthy_log_is_not_retired_for_its_successor_would_read_it_all_again"
GROWTH = "tests/simulation/test_growth.py::"
UPKEEP = "tests/ledger/test_upkeep.py::"
ONE_LOG = "tests/simulation/test_one_log.py::"

MUTANTS = [
    # A person retires.
    one(
        "a healthy log is retired",
        "its successor would read all of it again",
        (f"{HEALTHY}[bounds0-None-nothing is wrong with orders.v1-0: the same log-lockstep status orders]",),
        Edit(
            "steps/changes/retire.py",
            "        if not wrong:\n            _refuse",
            "        if wrong:\n            _refuse",
        ),
        long=True,
    ),
    one(
        "one reading of a truncation is enough",
        "a broker that lags behind would have a healthy log retired",
        f"{RETIRE}test_one_stale_answer_of_a_broker_is_no_truncation "
        f"{RETIRE}test_a_truncated_log_is_believed_after_three_readings_and_only_its_partition_is_retired",
        Edit("steps/changes/retire.py", "READINGS_OF_A_TRUNCATION = 3", "READINGS_OF_A_TRUNCATION = 1"),
        long=True,
    ),
    one(
        "the same topic of another cluster is the same log",
        "offsets of one cluster mean nothing in another",
        f"{RETIRE}test_a_topic_of_another_cluster_is_begun_anew",
        Edit("steps/changes/retire.py", "if stream.cluster_id != view.cluster_id:", 'if view.cluster_id == "":'),
        long=True,
    ),
    one(
        "a definition that names another topic retires the streams",
        "a pipeline keeps its topic for good",
        f"{RETIRE}test_retire_does_not_help_to_another_topic",
        Edit("steps/changes/retire.py", "if stream.topic_partition.topic != view.topic:", 'if view.topic == "":'),
        long=True,
    ),
    one(
        "one offset is the beginning of every partition",
        "an offset means something in one partition alone",
        f"{RETIRE}test_an_offset_to_begin_at_is_one_partitions",
        Edit("steps/changes/retire.py", "if isinstance(start, int) and partition is None:", "if start is None:"),
        long=True,
    ),
    one(
        "a truncated log begins past its end",
        "the next records to be written there would be left out",
        tuple(f"{ONE_LOG}test_an_offset_past_the_truncated_log_is_refused[{start}]" for start in (61, 100)),
        Edit("steps/changes/retire.py", "if not bounds.log_start <= start <= most:", "if start < bounds.log_start:"),
        long=True,
    ),
    one(
        "a recreated topic is begun in its known partitions alone",
        "its partitions would not share one epoch",
        f"{RETIRE}test_a_recreated_topic_is_begun_anew_in_all_its_partitions_and_one_epoch",
        Edit(
            "steps/changes/retire.py",
            "set(view.bounds) - well if all_partitions and recreated else",
            "set() if recreated is None else",
        ),
        long=True,
    ),
    one(
        "one partition is retired, and all are begun anew",
        "the others' streams are open",
        f"{RETIRE}test_one_partition_alone_may_be_retired",
        Edit(
            "steps/changes/retire.py",
            "starts = _starts(view, sick, well, all_partitions=partition is None)",
            "starts = _starts(view, sick, well, all_partitions=True)",
        ),
        Drop("drop index lockstep.one_open_stream; drop trigger one_log on lockstep.stream"),
        long=True,
    ),
    one(
        "a retirement leaves batches at work",
        "they could never commit; with one_log off, which hides it",
        f"{RETIRE}test_a_recreated_topic_is_begun_anew_in_all_its_partitions_and_one_epoch",
        Edit(
            "steps/changes/retire.py",
            "abandoned = lock_and_abandon(cur, decisions.claiming(cur, of_partitions), person)",
            "abandoned: list[int] = []",
        ),
        Drop("drop trigger one_log on lockstep.stream"),
        long=True,
    ),
    one(
        "a retirement keeps the claims of what it abandons",
        "they keep out whoever follows; with the constraints off, which hide it",
        f"{RETIRE}test_a_recreated_topic_is_begun_anew_in_all_its_partitions_and_one_epoch",
        Edit("steps/changes/retire.py", "        decisions.release_claims(cur, abandoned)\n", ""),
        Drop("drop trigger one_log on lockstep.stream; drop trigger committed_whole on lockstep.batch"),
        long=True,
    ),
    one(
        "a log that ends within an unfinished batch is healthy",
        "the batch could never be read",
        f"{RETIRE}test_a_log_that_ends_within_an_unfinished_batch_is_truncated_too",
        Edit("steps/changes/retire.py", "if end < claimed_until:", "if end < 0:"),
        long=True,
    ),
    one(
        "requests about a retired stream stay open",
        "they would read another log's records",
        f"{RETIRE}test_requests_about_a_retired_stream_are_closed_and_no_others",
        Edit("steps/changes/retire.py", "        close_requests_of(cur, streams=of_partitions)\n", ""),
        long=True,
    ),
    one(
        "a stream is retired whatever moved meanwhile",
        "a commit has come between",
        f"{RETIRE}test_nothing_is_retired_when_a_commit_moved_the_streams_meanwhile",
        Edit(
            "steps/changes/retire.py",
            "{s.stream_id: s.position for s in sick} or not (",
            "{s: 0 for s in ids} and not (",
        ),
        long=True,
    ),
    one(
        "a stream is retired twice",
        "its successor would be opened twice",
        f"{RETIRE}test_nothing_is_retired_twice_by_two_persons",
        Edit(
            "steps/changes/retire.py",
            "set(ids) <= {s.stream_id for s in open_streams(cur, pipeline.name)}",
            "set(ids) <= {*ids}",
        ),
        long=True,
    ),
    one(
        "a retirement leaves no row",
        "each decision says who took it and why",
        f"{RETIRE}test_a_recreated_topic_is_begun_anew_in_all_its_partitions_and_one_epoch",
        Edit("steps/changes/retire.py", '        decisions.record(cur, pipeline.name, "retire", person, detail)\n', ""),
        long=True,
    ),
    # The topic grows.
    one(
        "growth leaves no row",
        "from here on a key may live in another partition",
        f"{GROWTH}test_growth_is_recorded_and_opens_an_epoch_in_every_partition",
        Edit("ledger/batch/streams.py", "    insert_growth(cur, pipeline, who, which, new)\n", ""),
        long=True,
    ),
    one(
        "a loss does not open a new partition",
        "the plan names accept-loss, and accept-loss refuses: for ever",
        f"{GROWTH}test_records_of_a_new_partition_that_went_before_its_first_plan_are_a_loss_that_can_be_accepted",
        Edit(
            "steps/changes/decisions.py",
            "    return with_new_streams(cur, pipeline, view, streams, starts, person.who, bound_by)[0]\n",
            "    return streams\n",
        ),
        long=True,
    ),
    one(
        "a new partition does not wait for the batch of the others",
        "its streams would be closed under it",
        f"{GROWTH}test_a_new_partition_waits_for_the_unfinished_batch_of_the_others",
        Edit(
            "steps/changes/decisions.py",
            "if any(batch.lane == Lane.LIVE for batch in",
            'if any(batch.lane == "none" for batch in',
        ),
        long=True,
    ),
    # Upkeep.
    one(
        "what an open request is about is merged",
        "the request would find other segments than it was shown",
        f"{UPKEEP}test_what_a_batch_claims_and_what_an_open_request_is_about_is_left_alone",
        Edit("ledger/admin/upkeep.sql", "r.closed_at is null and w.stream_id", "false and w.stream_id"),
        long=True,
    ),
    one(
        "what a batch claims is merged",
        "its commit would not find what it replaces",
        f"{UPKEEP}test_exactly_the_free_neighbours_below_log_start_are_merged",
        Edit(
            "ledger/admin/upkeep.sql",
            "not exists (select 1 from lockstep.claim k where k.stream_id = c.stream_id and k.offsets && c.offsets)",
            "true",
        ),
        long=True,
    ),
    one(
        "what was filled before the start is merged with what follows",
        "the stream's own coverage begins at its start",
        f"{UPKEEP}test_what_was_filled_before_the_start_is_not_merged_with_what_follows_it",
        Edit("ledger/admin/upkeep.sql", "upper(c.offsets) <= s.start_offset as before_start", "false as before_start"),
        long=True,
    ),
    one(
        "what lies above log start is merged",
        "it could not be replayed by its batches any more",
        (f"{UPKEEP}test_what_lies_below_log_start_becomes_one_row_and_every_answer_stays[appended]",),
        Edit("ledger/admin/upkeep.sql", " and upper(c.offsets) <= %(log_start)s\n", "\n"),
        long=True,
    ),
    one(
        "upkeep merges without the pipeline's lock",
        "a plan under way may claim what it merges",
        f"{UPKEEP}test_a_pipeline_that_is_planned_meanwhile_is_merged_the_next_time",
        Edit("steps/upkeep/coverage.py", "            lock_pipeline(cur, stream.pipeline, even_forgotten=True)\n", ""),
        long=True,
    ),
    one(
        "what upkeep left is not told",
        "a topic that never answers would go unseen",
        f"{UPKEEP}test_a_log_that_cannot_be_asked_or_is_another_one_is_left_as_it_is",
        Edit(
            "steps/upkeep/coverage.py",
            '            left.append(f"{topic}: {refusal.message}")\n',
            "            del refusal\n",
        ),
        long=True,
    ),
    one(
        "another log's start says what is merged",
        "its offsets mean nothing here",
        f"{UPKEEP}test_a_log_that_cannot_be_asked_or_is_another_one_is_left_as_it_is",
        Edit(
            "steps/upkeep/coverage.py",
            "if (s.cluster_id, s.topic_id) == (view.cluster_id, view.topic_id) and s.partition",
            "if s.partition",
        ),
        long=True,
    ),
]
