"""Renders all pipelines: their lag, their rate and their health."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockstep.core.health.health import Health, health_word, judge_health
from lockstep.core.pipeline.names import pipeline_of_dag
from lockstep.ledger.views import overview
from lockstep.steps.inspect.status import known_of
from lockstep.web.dags import known_dags
from lockstep.web.place import reading_ledger, remembered_rejects, statuses, waits
from lockstep.web.render import page
from lockstep.web.rights import shown_pipelines

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lockstep.core.health.health import Condition
    from lockstep.ledger.views.reading import Document
    from lockstep.web.dags import KnownDag

NEVER_PLANNED: Document = {"streams": [], "warnings": [], "behind_after_seconds": None}
BARS = (160, 26)  # width and height of the picture of recent batches


@dataclass(frozen=True, slots=True)
class Shown:
    """The pipelines that a reader chooses: by a part of the name, by health and by owner. Empty means all."""

    name: str = ""
    health: str = ""
    owner: str = ""

    def shows(self, line: PipelineLine) -> bool:
        """Returns True if the line is among those that the reader has chosen."""
        return (
            self.name.strip().lower() in line.name.lower()
            and self.health in {"", line.health}
            and (not self.owner or self.owner in line.owners)
        )


@dataclass(frozen=True, slots=True)
class PipelineLine:
    """One pipeline on the page. Counts are None if the broker does not answer."""

    name: str
    dag_id: str
    owners: tuple[str, ...]
    health: str
    words: str
    row: Any
    under_way: int
    interrupted: int
    lag: int | None
    lag_seconds: float | None
    headroom_seconds: float | None
    holes: int | None
    rejects: int | None
    rate: float | None
    bars: tuple[tuple[float, float, float, int, int], ...]


def pipelines_page(dag_ids: Collection[str], shown: Shown) -> str:
    """Renders the pipelines of the DAGs that the reader may see. Omits forgotten ones.

    Without Airflow's word on which DAGs are Lockstep's, omits those of pipelines that the ledger does not know, too.
    """
    # A reader may be let to a pipeline by either of its DAGs; the live one has its name and comes first.
    doors = {pipeline_of_dag(dag_id): dag_id for dag_id in sorted(dag_ids, reverse=True)}
    doors = {name: doors[name] for name in shown_pipelines(doors, dag_ids)}
    dags = known_dags(doors)
    with reading_ledger() as cur:
        found = [row for row in overview.pipelines(cur, sorted(doors)) if not row.forgotten]
        rows = [row for row in found if row.recorded or (row.name in dags and dags[row.name].is_of_a_pipeline)]
        recent = overview.recent(cur, [row.name for row in rows])
    names = [row.name for row in rows if row.planned]
    told, rejects = statuses(names), remembered_rejects(names)
    lines = [
        _line(row, doors[row.name], dags.get(row.name), told, rejects.get(row.name), recent[row.name]) for row in rows
    ]
    counted = Counter(line.health for line in lines)
    return page(
        "pipelines.html.jinja",
        lines=[line for line in lines if shown.shows(line)],
        every=len(lines),
        totals=[(state, counted[state]) for state in Health if counted[state]],
        owners=sorted({owner for line in lines for owner in line.owners} | ({shown.owner} - {""})),
        states=list(Health),
        shown=shown,
        at=datetime.now(UTC),
        bars=BARS,
        asking=any(waits(each) for each in told.values()),
    )


def _line(
    row: Any,
    dag_id: str,
    dag: KnownDag | None,
    told: Mapping[str, tuple[Document | None, str | None]],
    rejects: int | None,
    recent: list[Any],
) -> PipelineLine:
    found, unknown = told.get(row.name, (NEVER_PLANNED, None))
    streams = found["streams"] if found else []
    lags = [s["lag_records"] for s in streams if s["lag_records"] is not None]
    late = [s["lag_seconds"] for s in streams if s["lag_seconds"] is not None]
    room = [s["headroom_seconds"] for s in streams if s["headroom_seconds"] is not None]
    known = known_of(row, dag_paused=dag.is_paused if dag else None)
    conditions = judge_health(known, found, unknown)
    return PipelineLine(
        row.name,
        dag_id,
        dag.owners if dag else (),
        health_word(conditions),
        _words(conditions, row.requests),
        row,
        sum(work.is_held for work in known.work),
        sum(work.is_interrupted for work in known.work),
        sum(lags) if lags else None,
        max(late, default=None),
        min(room, default=None),
        sum(s["holes"] for s in streams) if found else None,
        rejects,
        _rate(recent),
        _bars(recent),
    )


def _words(conditions: list[Condition], requests: int) -> str:
    """Returns the reason of the health, the first of each further condition, and the open requests."""
    firsts = {condition.state: condition for condition in reversed(conditions)}
    said = [
        condition.message if condition is conditions[0] else f"{condition.state}: {condition.message}"
        for condition in conditions
        if firsts[condition.state] is condition
    ]
    asked = [f"{requests} request{'s' if requests > 1 else ''} under way"] if requests else []
    return "; ".join(said + asked)


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
