"""Names the roles of a run, the tables of the ledger, and the rights that each role needs."""

from __future__ import annotations

from dataclasses import dataclass

# No target lies in them.
LEDGER_SCHEMAS = frozenset({"lockstep", "lockstep_staging", "lockstep_feed", "lockstep_send", "lockstep_lake"})

OF_A_RUN = ("lockstep_planner", "lockstep_stager", "lockstep_committer", "lockstep_partition", "lockstep_reader")
SPARK_TABLES = ("spark_run", "spark_stage")
ERASURES = ("erasure_salt", "erasure", "erasure_bound", "erased")
EVENT_TIME = ("event_time", "stream_time", "judged", "window_state", "late")
LAKE_SWEPT = ("lake_prefix", "lake_prepared")
LAKE_KEPT = ("lake_upkeep", "lake_gone")
OF_EXECUTORS = "lockstep_executor"  # it stages, and reads nothing
OF_SUITES = "lockstep_judge"  # it has no right. A judgement shows it the rows of its attempt
EXPECTED_ROLES = ("lockstep_owner", "lockstep_targets", *OF_A_RUN, OF_EXECUTORS, OF_SUITES)
# Rows that no role changes. A batch, an attempt and a request are closed once, which a trigger guards.
HISTORY_TABLES = (
    "definition",
    "batch_range",
    "request_window",
    "call",
    "source_manifest",
    "manifest",
    "verdict",
    "result",
    "target_rows",
    "shape",
    "content",
    "commit",
    "part",
    "task_backend",
    "decision",
    "boundary",
    "migration",
    "delivery",
    "request_call",
    "request_admits",
    "rehearsal",
    *("complete_hour", "hour_offsets", "hour_told", "hour_changed", "feed", "change_set", "trimmed"),
    "blank_change",
    "folded",  # only by the trigger that guards folding
    "renaming",
    *("link", "lifted", "ledger"),
    "archived",
    "archive_drop",
    *("lake_file", "lake_commit", "lake_pointer"),
    "answer",
    *SPARK_TABLES,
    *ERASURES,
)
CHANGING = (
    *("coverage", "contribution", "claim", "stream", "batch", "attempt", "request", "pipeline", "arrival"),
    *("target_owner", "relay", "hidden_batch", "landed", "lake_held", *LAKE_SWEPT, *LAKE_KEPT, *EVENT_TIME),
)
PLANS = (
    "stream",
    "request",
    "request_window",
    "batch",
    "batch_range",
    "call",
    "claim",
    "decision",
    "boundary",
    "coverage",
    "request_call",
    "request_admits",
    "rehearsal",
    "complete_hour",
    "hour_offsets",
    "target_owner",
    "archived",
    "archive_drop",
)
CONTENT_TABLES = ("shape", "content")
DEAD = ("tombstone", "source_truncation")  # they keep older records of deleted keys, and of a truncated source, out
STAGES = (
    *("definition", "attempt", "source_manifest", "manifest", "verdict", "result", "target_rows", "hidden_batch"),
    *("lake_prefix", "lake_file", "answer"),
    *SPARK_TABLES,
)
RANGES = ("task_backend", "manifest", "result", *CONTENT_TABLES, "commit", "landed", "coverage", "reject", *DEAD)
COMMITS = (
    *("commit", "coverage", "contribution", "reject", "outbox", *DEAD, "decision", "delivery", "arrival"),
    "hour_told",
    *(*LAKE_SWEPT, *LAKE_KEPT, "lake_file", "lake_commit", "lake_held"),
    *("stream_time", "judged", "window_state", "late"),
    *CONTENT_TABLES,
    *ERASURES,
)
# (role, privilege, table): the grants that a run needs.
GRANTS = (
    *((role, "SELECT", table) for role in OF_A_RUN for table in (*HISTORY_TABLES, *CHANGING)),
    *(("lockstep_planner", "INSERT", table) for table in ("pipeline", "event_time", *PLANS)),
    *(
        ("lockstep_planner", "DELETE", table)
        for table in ("claim", "coverage", "contribution", "target_owner", "tombstone")
    ),
    *(("lockstep_stager", "INSERT", table) for table in STAGES),
    *(("lockstep_committer", "INSERT", table) for table in COMMITS),
    *(
        ("lockstep_committer", "DELETE", table)
        for table in (
            *("coverage", "contribution", "claim", "reject", *DEAD, "arrival", "late", "window_state", "hidden_batch"),
            "lake_held",
        )
    ),
    *(("lockstep_partition", "INSERT", table) for table in RANGES),
    (OF_EXECUTORS, "INSERT", "source_manifest"),
    *(("lockstep_partition", "DELETE", table) for table in ("coverage", "claim", "reject", *DEAD)),
)


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """A privilege that a role has, or lacks, on a table of the ledger. Without a table it is on the schema."""

    role: str
    privilege: str
    table: str

    def __str__(self) -> str:
        return f"{self.role} {self.privilege.lower()} {self.table or 'of the schema'}"

    @property
    def what(self) -> str:
        """Returns the privilege and its object, as `grant` and `revoke` take them."""
        return f"{self.privilege.lower()} on {f'lockstep.{self.table}' if self.table else 'schema lockstep'}"
