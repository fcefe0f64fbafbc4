"""Defines `check`, which checks definitions without running anything."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import typer

from lockstep.adapters import folders
from lockstep.cli.options import OneName
from lockstep.cli.output import AsJson, say, show
from lockstep.cli.pipelines.differing import differences_of
from lockstep.cli.pipelines.sharing import conflicts_of, definitions_on_disk
from lockstep.context.systems import engine_choice
from lockstep.core.capture.debezium import without_mark
from lockstep.core.errors import BadData, BadDefinition
from lockstep.core.pipeline.determinism import doubts, unseen
from lockstep.core.planning.routes import route
from lockstep.core.settings import REMOTE
from lockstep.steps.inspect.lines import route_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.health.ownership import Conflict
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.engine.spark.engine import SparkEngine


@dataclass(frozen=True, slots=True)
class _LookedAt:
    """The faults of a definition. Without any, its folder and the columns that reach each target."""

    faults: list[str]
    folder: PipelineFolder | None = None
    columns: Sequence[Sequence[Column]] = ()

    @property
    def route(self) -> dict[str, str] | None:
        """Returns the way of the pipeline's batches as JSON, or None if the definition has faults."""
        return route(self.folder, engine_choice(self.folder)).document() if self.folder else None


def check_command(name: OneName = None, as_json: AsJson = False) -> None:
    """Look at definitions without running anything."""
    names = folders.pipeline_names() if name is None else [name]
    if name is not None and name not in folders.pipeline_names():
        folders.load(name)  # refuses an unknown name, and lists the known ones
    known = definitions_on_disk()
    conflicts = conflicts_of([pipeline for pipeline in known if pipeline.name in names], known)
    looked = {each: _looked_at(each) for each in names}
    differing = differences_of([(its.folder, its.columns) for its in looked.values() if its.folder])
    found = {
        each: [*its.faults, *differing.get(each, ()), *map(_said, conflicts.get(each, ()))]
        for each, its in looked.items()
    }
    ok = not any(found.values())
    sound = {pipeline.name: pipeline for pipeline in known}
    document = {
        "ok": ok,
        "pipelines": [
            {
                "pipeline": each,
                "ok": not faults,
                "faults": faults,
                "record_limits": asdict(sound[each].record_limits) if each in sound else None,
                "reject_retention": sound[each].reject_retention if each in sound else None,
                "route": looked[each].route,
            }
            for each, faults in found.items()
        ],
    }

    def for_people() -> None:
        for each, faults in found.items():
            if not faults:
                say(f"{each}: ok; {_limits(sound[each])}")
                for line in route_lines(looked[each].route):
                    say(line)
            for fault in faults:
                typer.echo(f"{each}: {fault.removeprefix(f'{each}: ')}", err=True)

    show(document, as_json, for_people)
    if not ok:
        raise typer.Exit(1)


def _limits(pipeline: Pipeline) -> str:
    """Describes the limits of one record, and how long rejects keep their bytes."""
    days = pipeline.reject_retention
    kept = f"; rejects keep their bytes for {days} days" if days else ""
    return f"one record: {pipeline.record_limits.shown}{kept}"


def _looked_at(name: str) -> _LookedAt:
    from lockstep.steps.inspect.check import faults

    try:
        folder = folders.load(name)
        place = folders.shown_path(folder.path)
        engine = trial_engine(folder)
        columns = columns_reaching_targets(folder, engine)
        found = [*faults(folder, columns, place), *_doubts(folder, engine, place)]
        return _LookedAt(found, folder if not found else None, columns)
    except (BadDefinition, BadData) as fault:
        return _LookedAt([fault.message])


def _said(conflict: Conflict) -> str:
    return f"{conflict.reason.partition(': ')[2]}  Next: {conflict.next_command}"


def trial_engine(folder: PipelineFolder) -> SparkEngine | None:
    """Returns the Spark that a transform is tried on, always our own, or None if there is no transform."""
    if not folder.transforms:
        return None
    from lockstep.engine.spark.engine import SparkEngine

    os.environ.pop(REMOTE, None)  # a server shows too little of a plan
    return SparkEngine(folder, "", "")


def columns_reaching_targets(folder: PipelineFolder, engine: SparkEngine | None) -> Sequence[Sequence[Column]]:
    """Returns the columns that reach each target. A transform runs on an empty frame, which also proves what it keeps."""
    places = range(len(folder.pipeline.targets))
    return [without_mark(engine.columns(place)) if engine else folder.pipeline.columns for place in places]


def _doubts(folder: PipelineFolder, engine: SparkEngine | None, place: str) -> list[str]:
    """Lists the values that transforms take from outside their records, by their source and by Spark's plan."""
    if engine is None or folder.transform is None or folder.pipeline.nondeterministic:
        return []
    found = list(doubts(folder.transform))
    for function, expressions in engine.unrepeatable().items():
        found += unseen(found, function, expressions)
    return [f"{place}/{doubt}; or say nondeterministic=True" for doubt in found]
