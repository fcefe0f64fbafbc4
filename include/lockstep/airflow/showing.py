"""Formats the preview of a change of history as Markdown: offset ranges, counts and the first rows that differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lockstep.core.history import Asking
    from lockstep.core.targets import Target
    from lockstep.steps.history import Called

KINDS = ("added", "changed", "removed", "unchanged")
LONGEST = 300  # characters of a row
NOTHING = "Nothing was changed so far."


def rehearsed(called: Iterable[Called], targets: Iterable[Target]) -> str:
    """Formats what each lane's request would do to these targets."""
    from lockstep.targets import FILL_MEANS, replay_means

    replay = "; ".join(f"in {target.table} {replay_means(target)}" for target in targets)
    return difference(called, {"replay": replay, "fill": FILL_MEANS})


def difference(called: Iterable[Called], means: Mapping[str, str]) -> str:
    """Formats what each lane's request would do, and what a request of that lane means."""
    return "\n\n".join([*(_one(each, means[each.lane]) for each in called), NOTHING])


def request(asked: Asking, found: str) -> str:
    """Formats the reason of a request above what it would change."""
    return f"Reason: {_plain(asked.reason or 'none given')}\n\n{found}"


def losses(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats the offsets that would be given up for good."""
    head = ("partition", "from_offset", "until_offset", "position", "log_start")
    table = _table(head, [[str(row[name]) for name in head] for row in rows])
    return f"These offsets would be recorded as **lost**: nobody reads them any more.\n\n{table}\n\n{NOTHING}"


def _one(called: Called, means: str) -> str:
    found = called.difference or {}
    rejects = found.get("rejects", {})
    parts = [
        f"### {called.lane}\n\n{_plain(means[0].upper() + means[1:])}.",
        _table(("offsets", "span"), [[str(item.offsets), str(item.offsets.span)] for item in called.windows]),
        _table(
            ("table", *KINDS), [[t, *(str(counts[k]) for k in KINDS)] for t, counts in found.get("targets", {}).items()]
        ),
        f"Rejects: {rejects.get('before', 0)} before, {rejects.get('after', 0)} after.",
    ]
    if samples := found.get("samples"):
        rows = [[s["target"], s["kind"], _row(s["before"]), _row(s["after"])] for s in samples]
        parts.append(_table(("table", "", "before", "after"), rows))
    return "\n\n".join(parts)


def _row(values: Any) -> str:
    if values is None:
        return ""
    text = json.dumps(values, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Escapes text for Markdown."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return "".join(f"\\{each}" if each in "\\|`*_[]()#!~" else each for each in escaped)
