"""Says what each operation does on each kind of target: what a reader of the table sees, and what the tests hold.

WORKS: the operation is done, later records come in, the target is as after one clean pass, and `verify --deep` is green.
TWICE: the same, but records that the lost ledger has delivered are there twice, as the command named them. `verify` names
their rows in a table, and a replay takes them out. Nothing takes them out of a topic.
Any other text is the refusal: one line with a next command that can be typed, and nothing has changed.
"""

from __future__ import annotations

WORKS, TWICE = "works", "works, named doubles"
LAKE = "is a table of the lake, and erase does not reach its files and snapshots"
SENT = "its rows are sent to"
STORE = "its results lie in another store, and erase reaches only the ledger's own database"
WINDOWS = "has windows, and their rows are not those of single batches"

OPERATIONS = ("restored", "erase", "move", "retire", "canary", "redrive")
TABLE = {
    # kind of target: restored, erase, move, retire, canary, redrive
    "append": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "by batch": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "in parts": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "written once": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "upsert": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "upsert by order": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "history": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "history by order": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "totals": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "windows": (WORKS, WORKS, WORKS, WORKS, WINDOWS, WORKS),
    "feed": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "send": (TWICE, SENT, WORKS, WORKS, WORKS, WORKS),
    "several": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "per partition": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "upsert per partition": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "history per partition": (WORKS, WORKS, WORKS, WORKS, WORKS, WORKS),
    "lake append": (WORKS, LAKE, WORKS, WORKS, WORKS, WORKS),
    "lake keyed": (WORKS, LAKE, WORKS, WORKS, WORKS, WORKS),
    "lake and table": (WORKS, LAKE, WORKS, WORKS, WORKS, WORKS),
    "idempotent": (WORKS, STORE, WORKS, WORKS, WORKS, WORKS),
    "idempotent upsert": (WORKS, STORE, WORKS, WORKS, WORKS, WORKS),
    "idempotent files": (WORKS, STORE, WORKS, WORKS, WORKS, WORKS),
    "at least once": (TWICE, STORE, WORKS, WORKS, WORKS, WORKS),
    "at most once": (WORKS, STORE, WORKS, WORKS, WORKS, WORKS),
    "catalog elsewhere": (WORKS, STORE, WORKS, WORKS, WORKS, WORKS),
}
# Kinds that `make test` leaves out for the time that they take. `make test-all` has them.
LONG = {
    "written once",
    "history",
    "feed",
    "several",
    "at least once",
    "in parts",
    "upsert by order",
    "history by order",
    "upsert per partition",
    "history per partition",
    "idempotent upsert",
    "idempotent files",
    "lake and table",
    "catalog elsewhere",
    "by batch",
    "send",
    "lake keyed",
    "at most once",
}


def outcome(kind: str, operation: str) -> str:
    """Returns one cell."""
    return TABLE[kind][OPERATIONS.index(operation)]
