"""Shows the windows that are over behind each run. An asset event says how far event time has come."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, get_current_context, task

from lockstep.adapters.airflow.names import AirflowSkipException
from lockstep.airflow.door import emit_news
from lockstep.core.errors import BadDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import XComArg

    from lockstep.airflow.door import Door
    from lockstep.core.pipeline.definition import Pipeline


def watermark_of(pipeline: Pipeline) -> Asset:
    """Returns the asset of the watermark of a pipeline's first table with windows."""
    if not pipeline.windows:
        raise BadDefinition(f"{pipeline.name}: watermark_of wants a pipeline with Windows, and it has none")
    return watermarks_of(pipeline)[0]


def watermarks_of(pipeline: Pipeline) -> list[Asset]:
    """Returns the assets of the watermark, one for each table with windows, in the definition's order."""
    tables = [target.table for target in pipeline.windows]
    return [Asset(name=f"{table}.watermark", uri=f"lockstep://{table}/watermark", group="lockstep") for table in tables]


def show_behind(door: Door, pipeline: Pipeline, behind: XComArg) -> XComArg:
    """Adds the task `emit` behind a run, if the pipeline has windows. It also runs behind an idle run.

    Returns the last task.
    """
    assets = watermarks_of(pipeline)
    if not assets:
        return behind

    @task(trigger_rule="none_failed", inlets=assets, outlets=assets)
    def emit() -> None:
        """Raises the watermark, and shows the windows that it has passed."""
        show_windows(door, assets)

    shown = emit()
    behind >> shown
    return shown


def show_windows(door: Door, assets: Sequence[Asset]) -> None:
    """Shows what is due. Skips the task if the watermark stands where the last event said, and no window was due.

    The last event is read from Airflow. So a watermark that a dead try has raised is told by the next one.
    """
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.airflow import logs
    from lockstep.ledger.feed.reading import require_feed
    from lockstep.steps.windows.emit import emit

    with door.opened("emit") as at:
        pipeline = door.folder().pipeline
        emission = emit(at.conn, at.broker, pipeline)
        with transaction(at.conn, READER) as cur:
            fed = [target.table for target in pipeline.windows if target.feed]
            sets = {table: require_feed(cur, pipeline.name, table).last_seq for table in fed}
    watermark = emission.watermark
    if watermark is None:
        raise AirflowSkipException("the watermark has no time yet")
    context = get_current_context()
    events: dict[Asset, dict[str, Any]] = {}
    for asset in assets:
        windows = emission.emitted.get(_table(asset), 0)
        if windows or _is_news(context["inlet_events"][asset].ascending(ascending=False).limit(1), watermark):
            events[asset] = {"watermark": watermark.isoformat(), "windows": windows, "seq": sets.get(_table(asset))}
    emit_news(context, events)
    news = {_table(asset): extra for asset, extra in events.items()}
    lines = [
        f"{table}: {told['windows']:,} windows shown; the watermark is {watermark}" for table, told in news.items()
    ]
    logs.log_facts("emit", lines, {"pipeline": door.pipeline, "watermark": watermark, "windows": news})
    if not news:
        raise AirflowSkipException(f"the watermark still is {watermark}, and no window is due")


def _table(asset: Asset) -> str:
    return asset.name.removesuffix(".watermark")


def _is_news(last: Sequence[Any], watermark: datetime) -> bool:
    extra: Mapping[str, Any] = (last[0].extra or {}) if len(last) else {}
    return "watermark" not in extra or datetime.fromisoformat(extra["watermark"]) < watermark
