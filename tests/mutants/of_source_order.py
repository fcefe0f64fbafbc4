"""Lists mutants of the source's order: what comes first, what a tombstone has, what is never compared."""

from __future__ import annotations

from mutants.mutant import Edit, one

SOURCED = "tests/simulation/test_order_of_the_source.py::test_"
LOSES_TO_CHANGES = (
    f"{SOURCED}a_snapshot_loses_against_a_change_of_the_same_or_a_later_place_and_wins_against_an_earlier_one"
)
SAME_HEAD = "tests/formats/test_debezium.py::test_a_record_that_begins_like_the_one_before_is_read_as_if_it_were_alone"
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
            "    > (coalesce(n._source_order, d.\"order\", ''), n._epoch, n._offset, n._stream)",
            '(s.epoch, d."offset", d.stream_id) > (n._epoch, n._offset, n._stream)',
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
        Edit("formats/debezium/decoder.py", 'if column.type == "string" and is_plain:', 'if column.type == "string":'),
        long=True,
    ),
]
