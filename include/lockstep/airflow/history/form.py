"""Defines the form of a history run, as Airflow shows and checks it.

Airflow's form marks a field as required unless its type has "null". It unfolds the fields without a section.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from lockstep.core.planning.history import HistoryAction

# RFC 3339, as the form's calendar sends it. Airflow itself checks the format only where rfc3339-validator is installed.
MOMENT_PATTERN = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"
MORE_CHOICES = "More: offsets, one topic or partition, a batch that failed"
OFFSETS_FIELD: dict[str, Any] = {
    "type": ["null", "array"],
    "items": {"type": "string", "pattern": r"^\s*(\d+:\d+)?\s*$"},
    "section": MORE_CHOICES,
}
FIELD_TITLES = {
    "fill": "fill: read what was skipped, or lies before the start",
    "replay": "replay: covered offsets again, under today's code",
    "admit-late": "admit-late: let late records count in their windows, by a replay",
    "accept-loss": "accept-loss: record deleted offsets as lost, go on behind them",
    "migrate": "migrate: change the table to the definition, by the safe changes that were shown",
    "skip": "skip: move the live position forward; what is left behind can be filled",
}


def fields(*, approval: bool, windows: bool = False) -> dict[str, Param]:
    """Returns the form's fields. `approval` is the initial state of its box. Late records are those of `windows`."""
    actions = [action.value for action in HistoryAction if windows or action != HistoryAction.ADMIT_LATE]
    return {
        "action": Param(
            default=HistoryAction.FILL.value,
            type="string",
            enum=actions,
            values_display={action: FIELD_TITLES[action] for action in actions},
            title="Action",
            description="A backfill, or a run that was cleared, does this only if it was given it.",
        ),
        "reason": reason_field("Why. The ledger keeps it. A decision and an approval need one."),
        "from_time": _moment(
            "From", "The first record of each partition at or past this moment. A backfill has its interval."
        ),
        "until_time": _moment("Until", "Not included. Of a skip: where the position goes; without it, to the end."),
        "preview": switch("Preview", "Show what would change, and stop: nothing is changed."),
        "approval": switch(
            "Ask for approval",
            "Show what would change, and go on when somebody has approved. A skip needs none.",
            default=approval,
        ),
        "digest": Param(
            default=None,
            type=["null", "string"],
            pattern=r"^\s*([0-9a-f]{64})?\s*$",
            title="Digest",
            description="Of migrate: which changes, as a preview or lockstep migrate --propose has shown them.",
            section=MORE_CHOICES,
        ),
        "from_offsets": Param(
            default=None,
            **OFFSETS_FIELD,
            title="From offsets",
            description="PARTITION:OFFSET, a line for each partition, in place of a time.",
        ),
        "until_offsets": Param(
            default=None, **OFFSETS_FIELD, title="Until offsets", description="The same, not included."
        ),
        "topic": Param(
            default=None,
            type=["null", "string"],
            pattern=r"^\s*[A-Za-z0-9._-]{0,249}\s*$",
            title="Topic",
            description="The topic of these offsets, or of the partition, where the pipeline has several.",
            section=MORE_CHOICES,
        ),
        "partition": Param(
            default=None,
            type=["null", "integer"],
            minimum=0,
            maximum=2**31 - 1,
            title="Partition",
            description="Only this one, of a fill, a replay or late records.",
            section=MORE_CHOICES,
        ),
        "retry": retry(section=MORE_CHOICES),
        "take_over": take_over_field(section=MORE_CHOICES),
    }


def reason_field(description: str) -> Param:
    """Returns the field for a reason. It may stay empty."""
    return Param(default=None, type=["null", "string"], title="Reason", description=description)


def retry(**schema: Any) -> Param:
    """Returns the box that tries a batch again which the pipeline has given up."""
    return switch("Retry", "Try a batch again that failed three times by data or code.", **schema)


def take_over_field(**schema: Any) -> Param:
    """Returns the box that resumes a batch without waiting for its lease."""
    return switch("Take over", "Resume an unfinished batch although its holder seems alive.", **schema)


def switch(title: str, description: str, *, default: bool = False, **schema: Any) -> Param:
    """Returns a box. Null counts as not ticked."""
    return Param(default=default, type=["null", "boolean"], title=title, description=description, **schema)


def _moment(title: str, description: str) -> Param:
    return Param(
        default=None,
        type=["null", "string"],
        format="date-time",
        pattern=MOMENT_PATTERN,
        title=title,
        description=f"{description} By REST as 2026-05-01T10:00:00Z, with a zone.",
    )
