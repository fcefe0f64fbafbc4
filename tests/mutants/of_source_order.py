"""Lists mutants of the source's order: what comes first, what a tombstone has, what is never compared."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

SOURCED = "tests/simulation/test_order_of_the_source.py::test_"
LOSES_TO_CHANGES = (
    f"{SOURCED}a_snapshot_loses_against_a_change_of_the_same_or_a_later_place_and_wins_against_an_earlier_one"
)
SAME_HEAD = "tests/formats/test_debezium.py::test_a_record_that_begins_like_the_one_before_is_read_as_if_it_were_alone"
TRUNCATED = "tests/simulation/test_truncated_source.py::test_"
TRUNCATION = "targets/source_truncation.py"
SQL, ORDER = "targets/source_order.sql", "formats/debezium/source_order.py"

MUTANTS = [
    one(
        "a record of a snapshot counts as a change",
        "a snapshot that is read late would take back what changed since",
        (f"{LOSES_TO_CHANGES}[per batch]",),
        Edit(ORDER, "SNAPSHOT if is_snapshot else STREAMED", "STREAMED"),
        long=True,
    ),
    one(
        "a change counts from where it lies in the log",
        "a snapshot would hide the change of a transaction that it did not see",
        (f"{SOURCED}a_change_of_a_long_transaction_counts_from_its_commit[per batch]",),
        Edit(ORDER, '_bytes(max(lsn, _commit_before(source.get("sequence"))))', "_bytes(lsn)"),
        long=True,
    ),
    one(
        "a deletion is compared by the topic alone",
        "a change that is sent again would raise the dead",
        (f"{SOURCED}a_connector_that_sends_old_changes_again_takes_nothing_back[per batch]",),
        Edit(
            SQL,
            '(coalesce(d."order", n._source_order, \'\'), s.epoch, d."offset", d.stream_id)\n'
            '    > (coalesce(n._source_order, d."order", \'\'), n."Epoch", n._offset, n._stream)',
            '(s.epoch, d."offset", d.stream_id) > (n."Epoch", n._offset, n._stream)',
        ),
        long=True,
    ),
    one(
        "a tombstone that is cut off from its deletion deletes what is there",
        "a deletion that is sent again would take a newer row, by where a batch happens to end",
        (f"{SOURCED}a_deletion_that_is_sent_again_takes_no_newer_row_wherever_its_tombstone_is_cut_off[per batch]",),
        Edit(SQL, "r.last_offset = n._offset - 1)", "r.last_offset = n._offset - 1 and false)"),
        long=True,
    ),
    one(
        "a tombstone without its deletion has no order",
        "its deletion would have no order, and an older change would raise the dead",
        (f"{SOURCED}a_tombstone_whose_deletion_was_compacted_away_deletes_the_row[per batch]",),
        Edit(SQL, "where {same_key} and n._deleted and n._source_order is null", "where {same_key} and false"),
        long=True,
    ),
    one(
        "any older change of a batch gives a value",
        "a value from before the row's own would come back",
        (f"{SOURCED}an_old_change_gives_no_value_to_a_newer_one[per batch]",),
        Edit(SQL, "n._stream = t._stream and n._offset > t._offset and", "n._stream = t._stream and"),
        long=True,
    ),
    one(
        "a log that begins again is older",
        "each change of the new log would be passed over, and nobody would know",
        (f"{SOURCED}a_log_that_begins_again_is_refused_and_changes_nothing[True]",),
        Edit("targets/upsert.py", "if by_source and (there.newer or deletions.earlier):", "if False:"),
        long=True,
    ),
    one(
        "ordered deletions are forgotten with the topic's",
        "a connector that sends an old change again would raise the dead",
        f"{SOURCED}a_deletion_is_not_forgotten_because_the_source_may_send_older_changes_at_any_time",
        Edit("ledger/admin/upkeep.sql", ' and o."order" is null', ""),
        long=True,
    ),
    one(
        "the order of changes may change",
        "rows without an order would be compared with rows that have one",
        ("tests/core/test_capture.py::test_the_order_of_changes_stays_for_good[formats0]",),
        Edit("core/planning/blocked.py", "(*_PARTS, _CLOCK, _ORDER)", "(*_PARTS, _CLOCK)"),
        long=True,
    ),
    one(
        "any record is read by the schema before",
        "a record without a schema, or of another one, would be another row",
        (f"{SAME_HEAD}[another schema]",),
        Edit("formats/debezium/change.py", "data.startswith(self._head) and ", ""),
        long=True,
    ),
    one(
        "a text is taken whatever its schema means",
        "a text where a number of microseconds belongs would be a time",
        "tests/formats/test_debezium.py::test_a_text_that_its_schema_does_not_allow_is_a_reject",
        Edit("formats/debezium/meaning.py", 'if column.type == "string" and is_plain:', 'if column.type == "string":'),
        long=True,
    ),
    one(
        "truncation_stays dropped",
        "an upkeep or a hand that takes the floor away would let old rows come back",
        f"{TRUNCATED}the_database_keeps_the_floor",
        Drop("drop trigger truncation_stays on lockstep.source_truncation"),
        long=True,
    ),
    one(
        "truncated_is_empty dropped",
        "a commit that forgets to delete would leave the rows, and nobody would know",
        f"{TRUNCATED}the_database_refuses_a_truncation_that_leaves_older_rows",
        Drop("drop trigger truncated_is_empty on lockstep.source_truncation"),
        long=True,
    ),
    one(
        "a truncation leaves the rows",
        "rows would stay that the source has not; with truncated_is_empty off, which hides it",
        (f"{TRUNCATED}rows_before_and_behind_a_truncation_in_one_batch[per batch]",),
        Edit(TRUNCATION, "return dropped, self._emptied() if self.count else 0", "return dropped, 0"),
        Drop("drop trigger truncated_is_empty on lockstep.source_truncation"),
        long=True,
    ),
    one(
        "a truncation counts in its own batch alone",
        "a record that is sent again, or comes from another partition, would bring its row back",
        (f"{TRUNCATED}what_lies_before_a_truncation_goes_and_comes_back_by_no_repeat_batch_or_replay[per batch]",),
        Edit(TRUNCATION, 'found = self._found("floor")', 'found = self._found("floor") if self.count else None'),
        long=True,
    ),
    one(
        "a record from before a truncation gives a value",
        "the row would have a value that the source threw away",
        f"{TRUNCATED}no_value_comes_from_before_a_truncation",
        Edit(TRUNCATION, '        self._parts["rows"] = self._made("from_above", floor=floor)\n', ""),
        long=True,
    ),
    one(
        "a change behind a truncation of another log is older",
        "each change of a log that begins again would be passed over, and nobody would know",
        (
            f"{TRUNCATED}a_log_that_begins_again_is_refused_behind_a_truncation_and_by_one[a change]",
            f"{TRUNCATED}a_log_that_begins_again_is_refused_behind_a_truncation_and_by_one[a truncation]",
        ),
        Edit("targets/source_order.py", "if found is not None:", "if False:"),
        long=True,
    ),
    one(
        "a truncation without a place is a reject",
        "the rows would stay, and a reject among many would be all that says so",
        f"{TRUNCATED}a_truncation_without_a_place_refuses_the_batch",
        Edit(
            "formats/debezium/decoder.py",
            'return RecordOutcome(refusal=f"{self._pipeline}: {TRUNCATED}: {error}")',
            "return RecordOutcome(reason=str(error))",
        ),
        long=True,
    ),
    one(
        "a truncation is applied in the order of the topic",
        "rows of other partitions would be taken for older ones",
        "tests/core/test_capture.py::test_a_truncation_is_applied_in_the_order_of_the_source_alone",
        Edit("core/capture/debezium.py", "if on_truncate == APPLY and order != BY_SOURCE:", "if False:"),
        long=True,
    ),
    one(
        "a preview looks at staged keys alone",
        "a person would approve a fill that empties the table, and see no row of it",
        f"{TRUNCATED}a_truncation_that_was_skipped_is_filled_at_its_place",
        Edit(
            "targets/proof/difference.sql", "from {rows} t where {is_truncation} and", "from {rows} t where false and"
        ),
        long=True,
    ),
    one(
        "verify looks at no row from before a truncation",
        "a row that came back by hand would stay",
        f"{TRUNCATED}verify_names_a_row_from_before_a_truncation_that_came_back_by_hand",
        Edit("targets/proof/truncated.sql", 'where (t._source_order >= f."order") is not true', "where false"),
        long=True,
    ),
]
