"""Mutants of what brings a batch once into a table whose catalog is elsewhere."""

from __future__ import annotations

from mutants.mutant import Edit, Mutant, one

BRING = "tests/elsewhere/test_bring.py::"
STORES = (
    "tests/elsewhere/test_refusing_stores.py::"
    "test_a_store_that_refuses_is_one_line_without_a_secret_and_names_the_settings_of_its_catalog"
)
COLUMNS = "tests/elsewhere/test_columns_between.py::"
PREPARED = f"{COLUMNS}test_columns_that_change_while_a_delivery_is_prepared_refuse_it_and_nothing_is_written"
BEFORE = f"{COLUMNS}test_columns_that_have_changed_before_a_delivery_refuse_it_and_nothing_is_sent"
FAULTS = "tests/elsewhere/test_once.py::test_each_batch_is_there_once_at_each_fault_of_an_answer"
OTHERS = "tests/elsewhere/test_others.py::"
CORE = "tests/core/test_arrivals.py::"
STORE, TABLE = "targets/stores/elsewhere.py", "adapters/iceberg/elsewhere.py"

MUTANTS: list[Mutant] = [
    one(
        "a commit elsewhere that holds upon any snapshot",
        "a commit that arrives late would hold behind another one, and double the batch",
        (f"{FAULTS}[few]",),
        Edit(TABLE, "unmoved = (*change._requirements, ", "unmoved = (*(), "),
        long=True,
    ),
    one(
        "pyiceberg's own commit elsewhere",
        "it is repeated upon the new snapshot, so an attempt that was overtaken would change rows",
        (f"{OTHERS}test_a_zombie_behind_a_newer_attempt_changes_nothing[False-deliver.prepared]",),
        Edit(
            TABLE,
            "self._catalog.commit(self._pipeline, self._table, unmoved, change._updates)",
            "change.commit_transaction()",
        ),
        long=True,
    ),
    one(
        "the ledger is not asked before a commit elsewhere",
        "behind a replay whose snapshot has expired, late results would double rows",
        (f"{OTHERS}test_at_most_once_a_zombie_that_wakes_after_a_replay_doubles_nothing[True]",),
        Edit(STORE, "                delivery.fence()\n", ""),
        long=True,
    ),
    one(
        "a property elsewhere is believed",
        "a rollback takes rows away and leaves the property, so offsets would commit without their rows",
        (f"{BRING}test_where_only_the_property_tells_of_a_delivery_its_rows_are_counted",),
        Edit(
            STORE, "    return table.rows_of(arrival.batch_id, ", "    return True or table.rows_of(arrival.batch_id, "
        ),
        long=True,
    ),
    one(
        "an earlier attempt is let in elsewhere",
        "rows of an attempt that was overtaken would take the place of newer ones",
        (f"{CORE}test_a_later_attempt_for_the_batch_or_its_offsets_is_in_the_way",),
        Edit("core/lake/arrivals.py", "if each.token > mine.token and (", "if each.token < mine.token and ("),
        long=True,
    ),
    one(
        "what lies on the offsets elsewhere stays",
        "a replay, and a batch behind an abandoned one, would double rows",
        (f"{BRING}test_a_later_delivery_takes_the_place_of_what_lies_on_its_offsets",),
        Edit(STORE, "    replaced = () if _keeps_old(delivery) else ", "    replaced = () if True else "),
        long=True,
    ),
    one(
        "a commit elsewhere that holds for any columns",
        "rows written for other columns would lose the values of a column that was dropped or renamed",
        tuple(f"{PREPARED}[{change}]" for change in ("make_anew", "drop", "rename", "require_more")),
        Edit(TABLE, "        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),\n", ""),
        long=True,
    ),
    one(
        "columns elsewhere are judged before the read alone",
        "a column that was dropped since would be left out of the rows without a word",
        (f"{PREPARED}[make_anew]", f"{BEFORE}[drop]", f"{BEFORE}[rename]"),
        Edit(STORE, "                _require_columns(delivery.pipeline, table, columns, files or ())\n", ""),
        long=True,
    ),
    one(
        "a delivery in doubt ends after so many tries",
        "a catalog that is away for half a minute would leave a batch in doubt, and results of AtMostOnce() out",
        (f"{BRING}test_a_delivery_without_an_answer_goes_on_for_as_long_as_its_patience",),
        Edit(STORE, "while number < ELSEWHERE_TRIES or in_doubt_until is not None:", "while number < ELSEWHERE_TRIES:"),
        long=True,
    ),
    one(
        "a store elsewhere is told as the lake's own",
        "its refusal would name other settings, and might repeat a key of the catalog",
        (f"{STORES}[refuses]", f"{STORES}[other]"),
        Edit(TABLE, "        return self._catalog.store_answers(self._pipeline, ", "        return super().answers("),
        long=True,
    ),
    one(
        "a catalog's answer is repeated with its secret",
        "a token would stand in logs and in the ledger",
        (f"{CORE}test_no_secret_is_repeated_or_shown",),
        Edit("core/lake/catalogs.py", 'line = line.replace(value, "***")', "line = line.replace(value, value)"),
        long=True,
    ),
]
