"""Defines deployments as faults: the folder changes between two tasks of one run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.core.pipeline.definition import Append, Upsert

if TYPE_CHECKING:
    from lockstep.core.pipeline.folder import PipelineFolder

TASKS = ("validate", "commit")  # the tasks that may meet another folder than the one that staged
CHANGES = ("transform", "suite", "target", "key")


def deployed(folder: PipelineFolder, what: str) -> PipelineFolder:
    """Returns the folder after a deployment that changes this."""
    first = folder.pipeline.first
    match what:
        case "transform":
            return replace(folder, transform="def transform(records):\n    return records.limit(0)\n")
        case "suite":
            return replace(folder, expectations={"name": "stricter", "expectations": []})
        case "target":
            return replace(
                folder, pipeline=replace(folder.pipeline, target=replace(first, table="public.house_of_others"))
            )
        case _:
            target = Upsert(first.table, key=("n",)) if isinstance(first, Append) else replace(first, key=("n",))
            return replace(folder, pipeline=replace(folder.pipeline, target=target))


def folders_around(folder: PipelineFolder, task: str, what: str) -> dict[str, PipelineFolder]:
    """Returns the folder that each task of a run loads, when the deployment comes right before this task."""
    begin = TASKS.index(task)
    later = dict.fromkeys(TASKS[begin:], deployed(folder, what))
    return {"stage": folder} | dict.fromkeys(TASKS[:begin], folder) | later
