"""Mutants of what keeps a file from counting that is not what Kafka gave, and a record from being lost or raised by it."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, Mutant, one

ARCHIVED_SQL = "ledger/migrations/0054_archived.sql"
REFUSES = "tests/ledger/test_constraints_of_archive.py::test_a_constraint_of_the_archive_refuses_by_itself"
WHOLE = "tests/ledger/test_constraints_of_archive.py::test_read_whole_is_by_log_and_archive_together"
FOLDING = "tests/windows/test_constraints_of_folding.py::test_a_constraint_refuses_by_itself"
FILES = "tests/core/test_archive.py::test_a_file_that_is_not_the_one_of_its_row_is_refused_by_its_name"
PLANS = "tests/core/test_planning.py::test_offsets_below_log_start_are_planned_as_far_as_files_hold_them_and_else_lost"
CLI = "tests/cli/test_archive.py::"
COPIED = f"{CLI}test_what_happens_while_a_file_is_copied_keeps_it_from_counting"
LOST = f"{CLI}test_what_was_not_archived_is_a_loss_to_accept_and_the_live_lane_reads_the_rest"
DROPPED = f"{CLI}test_old_files_are_dropped_by_a_decision_and_none_that_is_needed"
BEGAN = f"{CLI}test_a_batch_that_began_in_the_log_is_not_whole_by_the_archive"
DEAD = "tests/simulation/test_forgotten_deletions.py::test_a_deletion_is_remembered_while_the_archive_holds_an_older_record"
MERGED = "tests/ledger/test_upkeep.py::test_what_the_archive_holds_stays_apart_until_it_is_dropped"
READERS = "tests/spark/test_two_readers.py::test_archived_files_give_the_same_records_as_kafka_of_any_range"


def dropped(table: str, name: str, why: str, red: tuple[str, ...], kind: str = "constraint") -> Mutant:
    """Returns a mutant that drops a constraint or a trigger of one table."""
    gone = f"drop trigger {name} on lockstep.{table}"
    if kind == "constraint":
        gone = f"alter table lockstep.{table} drop constraint {name}"
    return one(f"{name} dropped", why, red, Drop(gone), long=True)


def refuses(*names: str) -> tuple[str, ...]:
    return tuple(f"{REFUSES}[{name}]" for name in names)


MUTANTS: list[Mutant] = [
    dropped("archived", "archived_once", "two files would hold one offset", refuses("archived_once-0")),
    dropped(
        "archived",
        "one_row_a_file",
        "a file would stand for offsets that it does not hold",
        refuses("one_row_a_file-0"),
    ),
    dropped(
        "archived",
        "archived_half_open",
        "an empty or endless range holds nothing",
        refuses(*(f"archived_half_open-{n}" for n in range(2))),
    ),
    dropped(
        "archived", "archived_from_the_log", "what the log had lost was not copied", refuses("archived_from_the_log-0")
    ),
    dropped(
        "archived",
        "archived_counts",
        "a file has no more records than offsets",
        refuses(*(f"archived_counts-{n}" for n in range(3))),
    ),
    dropped(
        "archived",
        "archived_in_time",
        "upkeep has let go of what a replay would need, or the log is another one",
        refuses("archived_in_time-0", "archived_of_one_log-0", "archived_of_one_log-1"),
        "trigger",
    ),
    dropped(
        "archive_drop",
        "dropped_when_done",
        "a file would be dropped that nobody decided about, or that is needed",
        refuses("dropped_by_decision-0", "dropped_by_decision-1", "dropped_when_done-0", "dropped_when_done-1"),
        "trigger",
    ),
    dropped(
        "coverage",
        "archived_stays_apart",
        "a replay would take it for one batch's",
        refuses("archived_stays_apart-0"),
        "trigger",
    ),
    dropped(
        "contribution",
        "folded_unarchived",
        "a replay could not take out what is folded",
        (f"{FOLDING}[folded_unarchived-0]",),
        "trigger",
    ),
    one(
        "a range that began in the log is whole by the archive, in the database",
        "its reader may have missed what the log lost meanwhile",
        (f"{WHOLE}[0-held0-False]",),
        Edit(ARCHIVED_SQL, "u.log_start_before <= lower(g.offsets) or not", "not"),
        long=True,
    ),
    one(
        "a range is whole wherever the archive holds any of it, in the database",
        "what nothing holds was not read",
        (f"{WHOLE}[23-held2-False]", f"{WHOLE}[23-held3-False]"),
        Edit(
            ARCHIVED_SQL,
            "@> int8range(lower(g.offsets), least",
            "&& int8range(lower(g.offsets), least",
        ),
        long=True,
    ),
    one(
        "a range that began in the log is whole by the archive",
        "its reader may have missed what the log lost meanwhile",
        (BEGAN,),
        Edit("steps/batch/same_log.py", "seen = view if began_in_log(item, before or {}) else whole", "seen = whole"),
        long=True,
    ),
    one(
        "the bytes of a file are not looked at",
        "a damaged file would be replayed",
        (FILES, f"{COPIED}[flips-its sha256 is]"),
        Edit(
            "engine/archived_ranges.py",
            "hexdigest()) != file.sha256:",
            "hexdigest()) == '':",
        ),
        long=True,
    ),
    one(
        "the offsets in a file are not compared with its row",
        "a file of other offsets would be replayed",
        (FILES,),
        Edit(
            "engine/archived_ranges.py",
            "!= (file.records, *file.digest):",
            "== ():",
        ),
        long=True,
    ),
    one(
        "a file's records are cut to no range",
        "a segment would have its neighbour's records",
        (READERS, FILES),
        Edit(
            "engine/archived_ranges.py",
            "messages_in(group.filter(inside),",
            "messages_in(group,",
        ),
        long=True,
    ),
    one(
        "hidden records come with their bytes from the archive",
        "they would kill their reader again",
        (READERS,),
        Edit(
            "engine/archived_ranges.py",
            "                    hide_records(messages, self.hidden, cut)\n",
            "",
        ),
        long=True,
    ),
    one(
        "a file counts before it is read back",
        "what the store has is not what was written",
        (f"{COPIED}[flips-its sha256 is]",),
        Edit(
            "steps/upkeep/copy_stretch.py",
            "            _require_same(store, pipeline, file, written.said.hexdigest())\n",
            "",
        ),
        long=True,
    ),
    one(
        "a file whose records were deleted while they were copied counts",
        "what was deleted first may not be in it",
        (f"{COPIED}[deletes-the log now starts at 1: records were deleted while they were copied]",),
        Edit("steps/upkeep/copy_stretch.py", "if bounds.log_start > offsets.from_offset:", "if bounds.log_start < 0:"),
        long=True,
    ),
    one(
        "another log is archived as this one",
        "its records would be replayed in place of the first one's",
        (f"{CLI}test_a_topic_that_is_made_anew_has_an_archive_of_its_own",),
        Edit(
            "steps/upkeep/archive.py",
            "        streams_of_log(cur, pipeline, one, None)",
            "        pass",
        ),
        long=True,
    ),
    one(
        "an archived gap is no gap",
        "a batch would be planned over offsets that nothing holds",
        (f"{PLANS}[10-seen1-planned1]",),
        Edit(
            "core/offsets.py",
            "if offset < self.log_start else None",
            "if offset < self.log_start and not self.archived else None",
        ),
        long=True,
    ),
    one(
        "a batch is planned over what nothing holds",
        "its records would be missing in it",
        (f"{PLANS}[10-seen1-planned1]", LOST),
        Edit("core/planning/live.py", ".readable_until(stream.position) -", ".stable_end -"),
        long=True,
    ),
    one(
        "what is archived is accepted as lost",
        "it can still be read",
        (LOST,),
        Edit(
            "steps/changes/decisions.py",
            "lost.until_offset <= log_start and not held:",
            "lost.until_offset <= log_start:",
        ),
        long=True,
    ),
    one(
        "a file is dropped before its records are committed",
        "they would be lost",
        (DROPPED,),
        Edit(
            "steps/upkeep/archived_files.py",
            "for row in found if not (row.is_unread or row.is_claimed)]",
            "for row in found]",
        ),
        Drop("drop trigger dropped_when_done on lockstep.archive_drop"),
        long=True,
    ),
    one(
        "a file is removed before its drop is decided",
        "a file that counts would be missing",
        (DROPPED,),
        Edit(
            "ledger/batch/archived.sql",
            "from lockstep.archive_drop d join lockstep.archived a using (archived_id)\njoin",
            "from lockstep.archived a\njoin",
        ),
        long=True,
    ),
    one(
        "a deletion is forgotten that keeps archived records out",
        "a replay would raise the dead",
        (DEAD,),
        Edit("ledger/admin/upkeep.sql", """and lower(a.offsets) <= o."offset")""", """and false)"""),
        long=True,
    ),
    one(
        "upkeep does not say what it lets go of",
        "a file of what was merged or forgotten would count later",
        (DEAD, MERGED),
        Edit("ledger/batch/archived.sql", "and s.upkept_below < b.log_start and s.retired_at is null", "and false"),
        long=True,
    ),
    one(
        "archived segments are merged",
        "a replay would take a stretch for one batch's own",
        (MERGED,),
        Edit(
            "ledger/admin/upkeep.sql",
            "and not c.offsets && (select lockstep.archive_of(%(stream_id)s))",
            "",
        ),
        Drop("drop trigger archived_stays_apart on lockstep.coverage"),
        long=True,
    ),
    one(
        "files of one topic stand for offsets of another",
        "what nothing holds would be planned",
        ("tests/core/test_archive.py::test_files_of_one_topic_hold_nothing_of_another",),
        Edit(
            "core/offsets.py",
            "archived.get(TopicPartition(self.topic, p), ())",
            "next((its for where, its in archived.items() if where.partition == p), ())",
        ),
        long=True,
    ),
    one(
        "a topic that is refused keeps the others from being copied",
        "their records would be deleted meanwhile",
        (f"{CLI}test_a_topic_that_is_made_anew_keeps_no_other_from_being_copied",),
        Edit("steps/upkeep/archive.py", "            refused.append(refusal)", "            raise refusal"),
        long=True,
    ),
]
