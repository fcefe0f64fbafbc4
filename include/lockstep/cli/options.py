"""Defines the arguments and options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from lockstep.core.planning.bounds import Bound

LAST_PARTITION, LAST_OFFSET = 2**31 - 1, 2**63 - 1


def _not_blank(reason: str | None) -> str | None:
    if reason is not None and not reason.strip():
        raise typer.BadParameter("a reason in words, please: the ledger keeps it")
    return reason


Name = Annotated[str, typer.Argument(help="The pipeline.", metavar="NAME", show_default=False)]
OneName = Annotated[
    str | None, typer.Argument(help="The pipeline; all of them without it.", metavar="NAME", show_default=False)
]
BatchId = Annotated[
    int, typer.Argument(help="The batch's number.", metavar="BATCH", min=1, max=LAST_OFFSET, show_default=False)
]
Partition = Annotated[int, typer.Option(help="The partition's number.", min=0, max=LAST_PARTITION, show_default=False)]
OnePartition = Annotated[
    int | None,
    typer.Option("--partition", help="Only this partition.", min=0, max=LAST_PARTITION, show_default=False),
]
OneTopic = Annotated[
    str | None,
    typer.Option("--topic", help="Its topic, where the pipeline has several.", show_default=False),
]
Reason = Annotated[str, typer.Option(help="Why; the ledger keeps it.", callback=_not_blank, show_default=False)]
MaybeReason = Annotated[
    str | None, typer.Option("--reason", help="Why; the ledger keeps it.", callback=_not_blank, show_default=False)
]
From = Annotated[
    str | None,
    typer.Option("--from", help="PARTITION:OFFSET, an ISO time, or a batch; log start without it.", show_default=False),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until", help="The same, not included; with a batch, its end. The position without it.", show_default=False
    ),
]
BatchOption = Annotated[
    int | None,
    typer.Option("--batch", help="What this batch read, and nothing else.", min=1, max=LAST_OFFSET, show_default=False),
]
RequestOption = Annotated[
    int | None,
    typer.Option("--request", help="Go on with this request.", min=1, max=LAST_OFFSET, show_default=False),
]
Preview = Annotated[bool, typer.Option("--preview", help="Show the row difference; change nothing.")]
Wait = Annotated[float, typer.Option(help="Seconds to wait while somebody else works on these offsets.", min=0)]


def bound(text: str, option: str) -> Bound:
    """Returns the bound that a text names: where something begins or ends. Any other text is a wrong call."""
    from lockstep.core.planning.bounds import parse_bound

    try:
        return parse_bound(text, option)
    except Refusal as refusal:
        raise typer.BadParameter(refusal.message, param_hint=option) from None
