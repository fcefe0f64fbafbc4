"""Lists mutants of the hours: they would announce an incomplete hour, or offsets twice or never."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

CORE = "tests/core/test_hours.py::"
LEDGER = "tests/ledger/test_hours.py::"
CONSTRAINT = "tests/ledger/test_constraints.py::test_a_constraint_refuses_by_itself"

MUTANTS = [
    one(
        "a skipped stretch completes an hour",
        "what was skipped can still be read, and the table lacks it",
        f"{CORE}test_a_loss_completes_an_hour_and_a_skip_does_not",
        Edit(
            "core/hours.py", 'each.kind == "skipped" and not stream.gone', 'each.kind == "nothing" and not stream.gone'
        ),
    ),
    one(
        "an empty hour is complete before what lies below it",
        "complete through is said of everything before, too",
        f"{CORE}test_nothing_in_an_hour_completes_it_only_when_all_before_it_is_committed",
        Edit("core/hours.py", "if stream.position < end:", "if at < end and stream.position < end:"),
        long=True,
    ),
    one(
        "an hour begins at its boundary, not where the one before it ended",
        "offsets would be in two hours, or in none",
        f"{CORE}test_hours_tile_whatever_the_boundaries_are",
        Edit(
            "core/hours.py",
            "first = stream.offset if stream.offset is not None else",
            "first = stream.start_offset if False else",
        ),
        long=True,
    ),
    one(
        "an hour is over although a transaction is open",
        "its records become visible when the hour was told",
        f"{LEDGER}test_an_open_transaction_keeps_an_hour_from_being_over",
        Edit(
            "steps/hours.py",
            "== ends[p]) and self._high[p] > ends[p]:",
            "== ends[p]) and self._high[p] < ends[p]:",
        ),
        long=True,
    ),
    one(
        "hour_is_covered dropped",
        "an hour that is not committed would be history",
        f"{CONSTRAINT}[hour_is_covered-0] {CONSTRAINT}[hours_tile-0]",
        Drop("drop trigger hour_is_covered on lockstep.hour_offsets"),
        long=True,
    ),
    one(
        "an hour is over by the caller's clock alone",
        "its end would be looked up before its last records came, once and for all",
        f"{LEDGER}test_an_hour_that_is_over_for_the_caller_alone_is_not_over_and_its_end_is_not_looked_up",
        Edit("steps/hours.py", "now = min(now, ledger.clock(cur))", "ledger.clock(cur)"),
        long=True,
    ),
]
