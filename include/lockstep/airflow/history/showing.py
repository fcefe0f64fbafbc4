"""Formats the preview of a change of history as Markdown: offset ranges and counts. Rows stay in the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.changes.row_changes import RowChange
from lockstep.core.planning.history import HistoryAction
from lockstep.core.states import Lane

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lockstep.core.changes.evolution import Proposal
    from lockstep.core.pipeline.targets import Target
    from lockstep.core.planning.history import HistoryRun, RequestForm
    from lockstep.core.planning.requests import Request
    from lockstep.core.planning.widened import Widened

# An erasure does not reach Airflow's database, so no row is written there.
ROWS_BEHIND = (
    "The first {number} rows that differ are on the page behind the link **Difference** of the task `rehearse`."
)
ADMITTED = "What is late in these offsets would count in its windows **from then on**, by a decision and a replay.\n\n"
NOTHING_CHANGED = "Nothing was changed so far."
NOTHING_ASKED = (
    "nothing was asked for: a run of the schedule only holds its interval. A backfill, a run that is triggered by hand, "
    "and a run that is cleared ask"
)
NOTHING_LEFT = {
    (
        Lane.FILL,
    ): "nothing is left to fill: up to the position, every offset here is read, or is not in the log any more",
    (Lane.REPLAY,): "nothing is to be replayed: no batch has read an offset here; a fill reads them",
    (
        Lane.REPLAY,
        Lane.FILL,
    ): "nothing is to be replayed or filled: here are no offsets below the position that can be read",
}
UNKNOWN_BEHAVIOR = "not known, as no scheduler with Lockstep's plugin has started this run"


def format_asked(run: HistoryRun, asked: RequestForm) -> str:
    """Formats what a run asks for, and by which rule of its interval it does."""
    begin, end = asked.begin or "the start", asked.end or "the end"
    found = f"{' and '.join(asked.lanes) or asked.action} from {begin} until {end}, {asked.mode}"
    if run.clear_number and asked.lanes:
        return f"{found}. This run was cleared: it is a request of its own."
    if run.run_type == "backfill":
        return f"{found}. Backfill with reprocess behavior {run.reprocess or UNKNOWN_BEHAVIOR}."
    return f"{found}."


def format_nothing(asked: RequestForm, run: HistoryRun) -> str:
    """Formats why a run has nothing to do, and what would do more."""
    if asked.action == HistoryAction.ADMIT_LATE:
        return "no late record is to be admitted"
    nothing = NOTHING_LEFT[asked.lanes]
    if not run.is_about_its_interval or Lane.REPLAY in asked.lanes:
        return nothing
    again = "clear this run, or trigger a run with the action replay"
    return (
        f"{nothing}. This run replays nothing (reprocess behavior {run.reprocess or UNKNOWN_BEHAVIOR})  Next: {again}"
    )


def rehearsed(called: Iterable[Request], targets: Iterable[Target]) -> str:
    """Formats what each lane's request would do to these targets."""
    from lockstep.targets import FILL_MEANS, replay_means

    replay = "; ".join(f"in {target.table} {replay_means(target)}" for target in targets)
    return format_difference(called, {"replay": replay, "fill": FILL_MEANS})


def counts_of(difference: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a preview's difference without the rows that it shows, as an XCom keeps it."""
    return {name: value for name, value in difference.items() if name != "samples"}


def format_difference(called: Iterable[Request], means: Mapping[str, str]) -> str:
    """Formats what each lane's request would do, and what a request of that lane means."""
    return "\n\n".join([*(_one(each, means[each.lane]) for each in called), NOTHING_CHANGED])


def format_request(asked: RequestForm, found: str) -> str:
    """Formats the reason of a request above what it would change."""
    return f"Reason: {_plain(asked.reason or 'none given')}\n\n{found}"


def format_widened(stretches: Sequence[Widened]) -> str:
    """Formats the stretches that reach over what was asked for, with the reason. Empty if none does."""
    if not stretches:
        return ""
    asked, done = sum(each.asked for each in stretches), sum(each.offsets.span for each in stretches)
    why = (
        f"**More than was asked for**: {asked:,} of these {done:,} offsets were. What a batch read of a partition is "
        "replaced as a whole, so a replay does all of it again. If the transform mixes partitions, whole batches are replaced."
    )
    rows = [[str(each.offsets), str(each.offsets.span), str(each.asked)] for each in stretches]
    return f"{why}\n\n{_table(('offsets', 'span', 'asked for'), rows)}\n\n"


def losses(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats the offsets that would be given up for good."""
    head = ("partition", "from_offset", "until_offset", "position", "log_start")
    table = _table(head, [[str(row[name]) for name in head] for row in rows])
    return f"These offsets would be recorded as **lost**: nobody reads them any more.\n\n{table}\n\n{NOTHING_CHANGED}"


def format_proposal(proposal: Proposal, registry: Sequence[str]) -> str:
    """Formats the changes of tables with their statements and digest, and what nobody changes by itself."""
    rows = [[each.table, each.column, each.held or "", each.wanted, each.statement] for each in proposal.changes]
    parts = [
        f"Digest: **{proposal.digest}**. An approval runs exactly these statements, in one transaction.\n\n"
        f"{_table(('table', 'column', 'from', 'to', 'statement'), rows)}"
        if rows
        else "No safe change is left to propose.",
        *(f"Rewritten while it is locked: {_plain(each.table)}." for each in proposal.changes if each.rewrites),
        *(f"Never run by an approval: {_plain(str(each))}" for each in proposal.unsafe),
        *(_plain(line) for line in registry),
    ]
    return "\n\n".join([*dict.fromkeys(parts), NOTHING_CHANGED])


def _one(called: Request, means: str) -> str:
    found = called.rehearsal.difference if called.rehearsal else {}
    rejects = found.get("rejects", {})
    parts = [
        f"### {called.lane}\n\n{_plain(means[0].upper() + means[1:])}.",
        _table(("offsets", "span"), [[str(item.offsets), str(item.offsets.span)] for item in called.windows]),
        _table(
            ("table", *RowChange),
            [[t, *(str(counts[k]) for k in RowChange)] for t, counts in found.get("targets", {}).items()],
        ),
        *([f"Late rows: {late['before']} before, {late['after']} after."] if (late := found.get("late")) else []),
        f"Rejects: {rejects.get('before', 0)} before, {rejects.get('after', 0)} after.",
    ]
    if samples := found.get("samples"):
        parts.append(ROWS_BEHIND.format(number=len(samples)))
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Escapes text for Markdown."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return "".join(f"\\{each}" if each in "\\|`*_[]()#!~" else each for each in escaped)
