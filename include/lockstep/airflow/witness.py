"""Announces a committed batch: asset event, metrics, and OpenLineage with the covered offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from openlineage.client.facet_v2 import RunFacet

from lockstep.adapters.airflow.names import stats
from lockstep.core.lake.catalogs import Catalog
from lockstep.core.pipeline.names import topic_tags
from lockstep.core.pipeline.stores import Files, Postgres
from lockstep.core.states import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lockstep.core.pipeline.definition import Pipeline, Target
    from lockstep.steps.context import Context

STATSD_GAUGES: dict[str, Callable[[Any], float]] = {
    "lag_records": sum,
    "lag_seconds": max,
    "headroom_records": min,
    "headroom_seconds": min,
}
EVENT_COUNTS = ("delivered", "written", "filtered", "rejected")


@attrs.define
class OffsetsRunFacet(RunFacet):
    """The offsets of each partition that a run has moved, as docs/openlineage/OffsetsRunFacet.json describes it."""

    pipeline: str
    batch: int
    attempt: int
    lane: str
    ranges: list[dict[str, Any]]

    @staticmethod
    def _get_schema() -> str:
        return "urn:lockstep:openlineage:OffsetsRunFacet:1-0-0"


def batch_counts(ranges: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Adds up a batch's counts over all its ranges."""
    return {name: sum(row[name] or 0 for row in ranges) for name in EVENT_COUNTS}


def news_of(batch_id: int, token: int, ranges: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """Returns what an asset event tells consumers of the table: the new batch, its ranges and its counts."""
    return {"batch": batch_id, "attempt": token, "ranges": _plain(ranges), **batch_counts(ranges), **more}


def measure(pipeline: str, ranges: Sequence[Mapping[str, Any]], streams: Sequence[Mapping[str, Any]]) -> None:
    """Emits rows, rejects, lag and headroom through Airflow's own metrics."""
    tags, sums = {"pipeline": pipeline}, batch_counts(ranges)
    stats.incr("lockstep.rows", sums["written"], tags=tags)
    stats.incr("lockstep.rejects", sums["rejected"], tags=tags)
    for name, value in worst_lag(streams).items():
        stats.gauge(f"lockstep.{name}", value, tags=tags)


def trace(at: Context, pipeline: Pipeline, batch_id: int, token: int, ranges: Sequence[Mapping[str, Any]]) -> bool:
    """Emits an OpenLineage event from the topic to the tables. Returns False if OpenLineage is off."""
    from airflow.providers.openlineage.api import emit_dataset_lineage, is_openlineage_active
    from openlineage.client.event_v2 import Dataset

    if not is_openlineage_active():
        return False
    lane = ranges[0]["lane"] if ranges else Lane.LIVE.value
    topics = sorted({row["topic"] for row in ranges}) or topic_tags(pipeline.topic)
    facet = OffsetsRunFacet(pipeline.name, batch_id, token, lane, _plain(ranges))
    emit_dataset_lineage(
        inputs=[Dataset(namespace=f"kafka://{at.broker.bootstrap.split(',')[0]}", name=topic) for topic in topics],
        outputs=[Dataset(*_table(at, pipeline, target)) for target in pipeline.targets],
        additional_run_facets={"lockstep_offsets": facet},
    )
    return True


def _table(at: Context, pipeline: Pipeline, target: Target) -> tuple[str, str]:
    """Returns the table's name for OpenLineage, with the server's address from the connection itself.

    Another store has its name only, and no address.
    """
    match pipeline.store:
        case Postgres(name):
            return f"lockstep://{name.lower()}", target.table
        case Files(path):
            return "file", f"{path}/{pipeline.name}"
        case Catalog(name):
            return f"lockstep://{name.lower()}", target.table.partition(".")[2]
    known = at.conn.info
    return f"postgres://{known.host}:{known.port}", f"{known.dbname}.{target.table}"


def worst_lag(streams: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns lag and headroom over all streams, as far as they are known."""
    found = {}
    for name, of_all in STATSD_GAUGES.items():
        known = [stream[name] for stream in streams if stream[name] is not None]
        if known:
            found[name] = of_all(known)
    return found


def _plain(ranges: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in {"lane", "state"}} for row in ranges]
