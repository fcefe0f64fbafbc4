"""Finds a pipeline in the bundle of its DAG file, so that both have the same version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters.folders import PIPELINES_VARIABLE, load, load_each, load_from, pipeline_names, root
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.settings import ENVIRONMENT

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Pipeline

PIPELINE_PLACES = (Path("include", "pipelines"), Path("pipelines"))


def root_beside(file: str | Path, name: str) -> Path | None:
    """Returns the folder of pipelines that holds this one, the nearest above a DAG file, or None without one.

    LOCKSTEP_PIPELINES, if set, wins: there is None then, too.
    """
    if ENVIRONMENT.get(PIPELINES_VARIABLE):
        return None
    above = (folder / place for folder in Path(file).resolve().parents for place in PIPELINE_PLACES)
    return next((root for root in above if (root / name / "__init__.py").is_file()), None)


def pipeline_beside(file: str | Path, name: str) -> Pipeline:
    """Returns the pipeline from include/pipelines or pipelines above a DAG file, else from where `lockstep` finds it.

    A DAG file calls it with `__file__`. Raises `BadDefinition`, in one line with file, line and field.
    """
    root = root_beside(file, name)
    return (load_from(root / name, name) if root else load(name)).pipeline


def place_beside(file: str | Path) -> Path:
    """Returns the folder of all pipelines above a DAG file, else the one that `lockstep` finds."""
    above = (folder / place for folder in Path(file).resolve().parents for place in PIPELINE_PLACES)
    beside = None if ENVIRONMENT.get(PIPELINES_VARIABLE) else next((each for each in above if each.is_dir()), None)
    return beside or root()


def pipelines_beside(file: str | Path) -> dict[str, Pipeline | BadDefinition]:
    """Returns every pipeline above a DAG file, by name, else those that `lockstep` finds. A broken one is its error."""
    place = place_beside(file)
    found: dict[str, Pipeline | BadDefinition] = {}
    for name, folder in load_each(pipeline_names(place), place).items():
        if isinstance(folder, Refusal) and not isinstance(folder, BadDefinition):
            raise folder
        found[name] = folder if isinstance(folder, BadDefinition) else folder.pipeline
    return found
