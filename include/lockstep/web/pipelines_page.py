"""Renders all pipelines: their lag, their rate and their health."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockstep.ledger import overview
from lockstep.web.place import count_rejects, ledger, pipeline_of, statuses, waits
from lockstep.web.render import page

if TYPE_CHECKING:
    from collections.abc import Collection

    from lockstep.ledger.reading import Document

BARS = (160, 26)  # width and height of the picture of recent batches


@dataclass(frozen=True, slots=True)
class Line:
    """One pipeline on the page. Counts are None if the broker does not answer."""

    name: str
    dag_id: str
    health: str
    words: str
    row: Any
    lag: int | None
    lag_seconds: float | None
    headroom_seconds: float | None
    holes: int | None
    rejects: int | None
    rate: float | None
    bars: tuple[tuple[float, float, float, int, int], ...]


def pipelines_page(dag_ids: Collection[str]) -> str:
    """Renders the pipelines of the DAGs that the reader may see. Omits pipelines that were never planned."""
    # Either of a pipeline's DAGs may give a reader access. The live one has its name and comes first.
    doors = {pipeline_of(dag_id): dag_id for dag_id in sorted(dag_ids, reverse=True)}
    with ledger() as cur:
        rows = overview.pipelines(cur, sorted(doors))
        names = [row.name for row in rows]
        recent = overview.recent(cur, names)
    told, rejects = statuses(names), count_rejects(names)
    lines = [_line(row, doors[row.name], told[row.name], rejects[row.name], recent[row.name]) for row in rows]
    asking = any(waits(each) for each in told.values())
    return page("pipelines.html.jinja", lines=lines, at=datetime.now(UTC), bars=BARS, asking=asking)


def _line(
    row: Any, dag_id: str, told: tuple[Document | None, str | None], rejects: int | None, recent: list[Any]
) -> Line:
    found, unknown = told
    streams = found["streams"] if found else []
    lags = [s["lag_records"] for s in streams if s["lag_records"] is not None]
    late = [s["lag_seconds"] for s in streams if s["lag_seconds"] is not None]
    room = [s["headroom_seconds"] for s in streams if s["headroom_seconds"] is not None]
    health, words = _health(row, found, unknown)
    return Line(
        row.name,
        dag_id,
        health,
        "; ".join(said for said in (words, *_also(row, health)) if said),
        row,
        sum(lags) if lags else None,
        max(late, default=None),
        min(room, default=None),
        sum(s["holes"] for s in streams) if found else None,
        rejects,
        _rate(recent),
        _bars(recent),
    )


def _health(row: Any, found: Document | None, unknown: str | None) -> tuple[str, str]:
    """Returns the health in one word, with the reason in one line if it is not good. The worst reason comes first."""
    streams = found["streams"] if found else []
    said = [
        ("failing", row.failing and "data or code was refused, and the batch waits"),
        ("unknown", not found and (unknown or "the broker was not asked")),
        ("blocked", any(s["stable_end"] is None for s in streams) and "a stream's log is not the same log any more"),
        ("holes", any(s["holes"] for s in streams) and "no batch covers some offsets below the position"),
        ("warned", found and found["warnings"] and found["warnings"][0]["message"]),
        ("paused", row.paused and "nothing new is planned"),
    ]
    return next(((health, words) for health, words in said if words), ("well", ""))


def _also(row: Any, health: str) -> tuple[str, ...]:
    """Returns further facts that a worse one has hidden: a pause, and open requests."""
    asked = f"{row.requests} request{'s' if row.requests > 1 else ''} under way" if row.requests else ""
    return ("paused" if row.paused and health != "paused" else "", asked)


def _rate(recent: list[Any]) -> float | None:
    """Returns records per second over the newest batches, from the first of them to the last."""
    if len(recent) < 2:  # noqa: PLR2004 - one batch has no duration
        return None
    seconds = (recent[-1].closed_at - recent[0].closed_at).total_seconds()
    return sum(row.written for row in recent[1:]) / seconds if seconds > 0 else None


def _bars(recent: list[Any]) -> tuple[tuple[float, float, float, int, int], ...]:
    """Returns x, y, height, batch and written records of each recent batch, the newest at the right edge."""
    width, height = BARS
    step = width / overview.RECENT
    most = max((row.written for row in recent), default=0) or 1
    first = overview.RECENT - len(recent)
    return tuple(
        (
            round((first + i) * step, 2),
            round(height - (tall := max(1.0, height * row.written / most)), 2),
            round(tall, 2),
            row.batch_id,
            row.written,
        )
        for i, row in enumerate(recent)
    )
