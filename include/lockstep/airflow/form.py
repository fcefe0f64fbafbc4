"""Defines the form of a history run, as Airflow shows and checks it."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from lockstep.core.history import ACTIONS

WHAT, WHERE, HOW = "What", "Where (times are UTC unless they name a zone)", "How"
OFFSETS: dict[str, Any] = {"type": "array", "items": {"type": "string", "pattern": r"^\d+:\d+$"}}
TITLES = {
    "fill": "fill: read what was skipped, or lies before the start",
    "replay": "replay: covered offsets again, under today's code",
    "accept-loss": "accept-loss: record deleted offsets as lost, go on behind them",
    "skip": "skip: move the live position forward; what is left behind can be filled",
}


def fields(*, approval: bool) -> dict[str, Param]:
    """Returns the form's fields. `approval` is the initial state of its box."""
    return {
        "action": Param(
            default=None,
            type=["null", "string"],
            enum=[None, *ACTIONS],
            values_display=TITLES,
            title="Action",
            description="A backfill fills, and a run that was cleared replays and fills, unless this says which.",
            section=WHAT,
        ),
        "reason": Param(
            default="",
            type="string",
            title="Reason",
            description="Why; the ledger keeps it. A loss and a skip need one.",
            section=WHAT,
        ),
        "from_time": _moment(
            "From", "The first record of each partition at or past this moment. A backfill has its interval."
        ),
        "until_time": _moment("Until", "Not included. Of a skip: where the position goes; without it, to the end."),
        "from_offsets": Param(
            default=[],
            **OFFSETS,
            title="From offsets",
            description="PARTITION:OFFSET, a line for each partition, in place of a time.",
            section=WHERE,
        ),
        "until_offsets": Param(
            default=[], **OFFSETS, title="Until offsets", description="The same, not included.", section=WHERE
        ),
        "partition": Param(
            default=None,
            type=["null", "integer"],
            minimum=0,
            maximum=2**31 - 1,
            title="Partition",
            description="Only this one, of a fill or replay.",
            section=WHERE,
        ),
        "preview": _switch("Preview", "Show what would change, and stop: nothing is changed."),
        "approval": _switch(
            "Ask for approval",
            "Show what would change, and go on when somebody has approved. A skip needs none.",
            approval,
        ),
        "retry": _switch("Retry", "Try a batch again that failed three times by data or code."),
        "take_over": _switch("Take over", "Resume an unfinished batch although its holder seems alive."),
    }


def _moment(title: str, description: str) -> Param:
    return Param(
        default=None,
        type=["null", "string"],
        format="date-time",
        pattern=r"^\d{4}-\d{2}-\d{2}([T ]|$)",  # Airflow shows the format and does not check it
        title=title,
        description=description,
        section=WHERE,
    )


def _switch(title: str, description: str, default: bool = False) -> Param:  # noqa: FBT001, FBT002 - the box's first state
    return Param(default=default, type="boolean", title=title, description=description, section=HOW)
