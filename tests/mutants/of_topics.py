"""Lists mutants of the guards of a pipeline that reads several topics."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

LEDGER = "tests/ledger/test_constraints_of_topics.py::"
TOLD = f"{LEDGER}test_a_decision_about_topics_says_where_each_of_them_begins"
DECIDED = f"{LEDGER}test_a_second_topic_is_read_from_where_a_decision_says_and_from_nowhere_else"
KAFKA = "tests/kafka/test_topics.py::"
APPEARS = f"{KAFKA}test_a_topic_that_appears_while_it_runs_is_whole_and_opened_by_a_decision"
VANISHES = f"{KAFKA}test_a_topic_that_vanishes_stops_its_own_streams_alone_until_it_is_left"
ADDED = f"{KAFKA}test_a_topic_is_added_by_the_definition_taken_away_by_retire_and_goes_on_where_it_was_left"
SAME_KEY = f"{KAFKA}test_the_same_key_on_two_topics_is_refused_with_the_remedy_and_order_by_is_one"
PURE = "tests/core/test_topics.py::"
READER = f"{KAFKA}test_records_of_two_topics_are_told_apart_by_topic_and_partition"

COMMANDS = "tests/cli/test_several_topics.py::"
ARCHIVE = "tests/cli/test_archive.py::"
FORGET = "tests/simulation/test_forgotten_deletions.py::test_how_far_deletions_may_be_forgotten["

MUTANTS = [
    one(
        "topic_is_told dropped",
        "a decision would not say which topics are read, and from where",
        tuple(f"{TOLD}[{each}]" for each in ("nothing", "a list", "none", "no partitions", "one without")),
        Drop("alter table lockstep.decision drop constraint topic_is_told"),
        long=True,
    ),
    one(
        "topic_by_decision dropped",
        "another topic would be read, and no row would say since when",
        tuple(f"{DECIDED}[{each}]" for each in ("no decision", "another topic", "another partition", "another offset")),
        Drop("drop trigger topic_by_decision on lockstep.stream"),
        long=True,
    ),
    one(
        "begins_where_it_ended dropped",
        "a topic that comes back would be read twice, or with a gap",
        f"{LEDGER}test_a_stream_of_the_same_log_begins_where_the_one_before_it_ended",
        Drop("drop trigger begins_where_it_ended on lockstep.stream"),
        long=True,
    ),
    one(
        "key_of_one_topic dropped",
        "a deletion of one topic would judge the records of another",
        f"{LEDGER}test_a_deletion_stays_with_its_topic",
        Drop("drop trigger key_of_one_topic on lockstep.tombstone"),
        long=True,
    ),
    one(
        "a topic that has appeared begins at the pipeline's start",
        "its first records would be missing under start=latest",
        APPEARS,
        Edit("steps/topics/open_topics.py", "if each.topic in appeared or ended[each.topic]:", "if ended[each.topic]:"),
        long=True,
    ),
    one(
        "a pattern matches the broker's own topics",
        "offsets and schemas would be read as records",
        f"{PURE}test_a_pattern_matches_whole_names_and_no_topic_of_the_broker",
        Edit("core/pipeline/names.py", "not topic.startswith(INTERNAL_TOPIC) and ", ""),
        long=True,
    ),
    one(
        "a topic that is gone stops the others",
        "one deleted topic would stop hundreds",
        f"{PURE}test_a_topic_that_is_gone_stops_itself_alone",
        Edit("core/planning/live.py", "return replace(situation, streams=there)", "return situation"),
        long=True,
    ),
    one(
        "a topic that the definition names no more is taken for one that is gone",
        "a typing error would leave a topic unread, and the others would go on",
        f"{PURE}test_a_topic_that_the_definition_does_not_name_stops_them_all",
        Edit("core/planning/live.py", "        or left_out\n", ""),
        long=True,
    ),
    one(
        "a new topic is read although the definition refuses it",
        "records would come in that nobody has looked at",
        f"{PURE}test_a_topic_that_has_appeared_is_refused_by_name",
        Edit("core/planning/blocked.py", " or source.new != REFUSE_NEW:", ":"),
        long=True,
    ),
    one(
        "a topic that comes back is read from its beginning",
        "every record of it would be there twice",
        ADDED,
        Edit(
            "steps/topics/open_topics.py",
            "dict.fromkeys(each.bounds, 0) | ended[each.topic]",
            "dict.fromkeys(each.bounds, 0)",
        ),
        Drop("drop trigger begins_where_it_ended on lockstep.stream"),  # alone, it refuses the plan
        long=True,
    ),
    one(
        "keys of two topics are compared by their epochs",
        "an older record would take a newer one's place",
        f"{KAFKA}test_a_key_of_a_topic_that_has_grown_is_refused_in_another_topic",
        Edit(
            "targets/upsert.sql",
            "    %(of_several_topics)s and coalesce",
            "    false and %(of_several_topics)s and coalesce",
        ),
        long=True,
    ),
    one(
        "a key on two topics of one batch is not looked for",
        "the newer epoch would win, and it is the newer topic's by chance",
        f"{KAFKA}test_a_key_of_a_topic_that_has_grown_is_refused_in_another_topic",
        Edit(
            "targets/upsert.py",
            "        if of_several_topics:\n",
            "        if of_several_topics and not came_twice:\n",
        ),
        long=True,
    ),
    one(
        "a reader tells records apart by partition alone",
        "records of two topics would be taken for one another",
        READER,
        Edit("engine/kafka_ranges.py", "topics.pop() if len(topics) == 1 else None", "topics.pop()"),
        long=True,
    ),
    one(
        "the hash of an envelope changes",
        "every pipeline with an envelope would count as changed",
        f"{PURE}test_a_definition_of_one_topic_keeps_its_document_and_hash",
        Edit("core/pipeline/definition.py", "if self.envelope and self.envelope.topic is None:", "if False:"),
        long=True,
    ),
    one(
        "a deletion moves to another topic whatever the source's log says",
        "an older deletion of one topic would take the place of a newer one of another",
        f"{LEDGER}test_a_deletion_stays_with_its_topic",
        Edit(
            "ledger/migrations/0060_deletions_of_topics.sql",
            '      and coalesce(new."order" <= old."order", true);',
            '      and new."order" is null;',
        ),
        long=True,
    ),
    one(
        "a batch of another topic keeps a deletion",
        "a pipeline of several topics would remember deletions for ever",
        f"{LEDGER}test_a_batch_of_another_topic_keeps_no_deletion",
        Edit(
            "ledger/migrations/0060_deletions_of_topics.sql",
            "or (coalesce(s.first_topic, s.topic) = coalesce(its.first_topic, its.topic) and s.epoch < its.epoch)",
            "or (s.epoch < its.epoch)",
        ),
        long=True,
    ),
    one(
        "deletions of a topic wait for another topic's log",
        "they would never be forgotten, or by the epochs of a topic that says nothing of them",
        (f"{FORGET}---another topic's log is its own]",),
        Edit("core/planning/deletions.py", " if each.topic == stream.topic]", "]"),
        long=True,
    ),
    one(
        "an adoption's digest leaves the topics of its places out",
        "offsets that were shown for one topic would begin another",
        "tests/core/test_adoption.py::test_several_topics_begin_together_and_their_partitions_are_named_with_them",
        Edit("core/changes/adoption.py", "[str(each.topic_partition) if named else", "[0 if named else"),
        long=True,
    ),
    one(
        "retention takes the positions of all topics for those of each",
        "what waits in one topic would be counted by another's position",
        f"{COMMANDS}test_retention_looks_at_each_topic_and_names_the_settings_of_the_first_deletion",
        Edit("steps/inspect/retention.py", "[row for row in streams if row.topic == view.topic]", "list(streams)"),
        long=True,
    ),
    one(
        "a fill for an hour names no topic",
        "the command would fill the partition of another topic, or be refused",
        "tests/kafka/test_hours.py::test_hours_of_several_topics_are_complete_when_all_of_them_are",
        Edit(
            "core/planning/hours.py",
            'topic = f" --topic {where.topic}" if named else ""',
            'topic = "" if named else ""',
        ),
        long=True,
    ),
    one(
        "a time below log start is looked up in the log alone",
        "a replay by time would begin at log start, and leave archived records out",
        f"{ARCHIVE}test_a_time_below_log_start_is_looked_up_in_the_archive_and_gaps_are_told_apart_there",
        Edit("steps/inspect/archived_records.py", "if pipeline.archive is None or not below:", "if below is not None:"),
        long=True,
    ),
    one(
        "an offset without an archived record is called a marker",
        "more would be claimed than anybody kept",
        "tests/core/test_gaps.py::test_an_archive_tells_records_below_log_start_and_nothing_of_the_rest",
        Edit("core/proof/gaps.py", "            return Kind.INVISIBLE", "            return Kind.MARKER"),
        long=True,
    ),
]
