"""Loads pipelines from disk, one folder each. Every mistake is named by file, line and field."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.adapters.definition.process import Broken, evaluate
from lockstep.core.errors import BadDefinition, Refusal, quoted
from lockstep.core.pipeline.columns import IDENTIFIER
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.core.pipeline.violations import wrong_type
from lockstep.core.settings import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lockstep.core.pipeline.definition import Pipeline

PIPELINES_VARIABLE = "LOCKSTEP_PIPELINES"


def root(environ: Mapping[str, str] = ENVIRONMENT) -> Path:
    """Returns the folder of all pipelines.

    That is LOCKSTEP_PIPELINES, else include/pipelines in or above the current folder, else the installed package.
    """
    if given := environ.get(PIPELINES_VARIABLE):
        if not Path(given).is_dir():
            raise Refusal(
                f"{PIPELINES_VARIABLE} is {given}, which is no folder", next_command=f"unset {PIPELINES_VARIABLE}"
            )
        return Path(given).resolve()
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / "include" / "pipelines").is_dir():
            return folder / "include" / "pipelines"
    installed = find_spec("pipelines")
    for place in (installed.submodule_search_locations or []) if installed else []:
        return Path(place)
    raise Refusal(
        f"no pipelines here: neither {PIPELINES_VARIABLE} nor a folder include/pipelines above {Path.cwd()} "
        "nor an installed package",
        next_command=f"lockstep init, or cd to your project, or set {PIPELINES_VARIABLE}",
    )


def dags() -> Path | None:
    """Returns the project's folder of DAG files, next to include/, or None if the pipelines are elsewhere."""
    place = root().parent.parent / "dags"
    return place if place.is_dir() and root().parts[-2:] == ("include", "pipelines") else None


def pipeline_names(within: Path | None = None) -> list[str]:
    """Returns the names of all pipelines, in order. Includes those with a broken definition."""
    return sorted(
        place.name
        for place in (within or root()).iterdir()
        if IDENTIFIER.match(place.name) and (place / "__init__.py").is_file()
    )


def load(name: str) -> PipelineFolder:
    """Loads a pipeline with the other files of its folder. Raises `BadDefinition`, in one line with file, line and field."""
    path = root() / name if IDENTIFIER.match(name) else None
    if path is None or not path.is_dir():
        known = ", ".join(pipeline_names()) or "none"
        raise Refusal(
            f"no pipeline {quoted(name)}; there are: {known}",
            next_command=f"lockstep new {name if path else 'NAME'} --topic TOPIC",
        )
    return load_from(path, name)


def load_from(path: Path, name: str) -> PipelineFolder:
    """Loads a pipeline of this name from a folder that may lie elsewhere. Raises `BadDefinition`."""
    source = path / "__init__.py"
    if not source.is_file():
        raise BadDefinition(
            f"{shown_path(source)}: missing; it holds the Pipeline", next_command=f"lockstep check {name}"
        )
    return _folder(path, name, *evaluate([(name, source)]))


def load_each(names: Iterable[str], within: Path | None = None) -> dict[str, PipelineFolder | Refusal]:
    """Loads these pipelines, by name, in one process for all of them. A broken one is its refusal, and hides no other."""
    place, found = within or root(), dict[str, PipelineFolder | Refusal]()
    there = [name for name in names if IDENTIFIER.match(name) and (place / name / "__init__.py").is_file()]
    for name, pipeline in zip(there, evaluate([(name, place / name / "__init__.py") for name in there]), strict=True):
        try:
            found[name] = _folder(place / name, name, pipeline)
        except Refusal as refusal:
            found[name] = refusal
    return found


def _folder(path: Path, name: str, pipeline: Pipeline | Broken) -> PipelineFolder:
    if isinstance(pipeline, Broken):
        raise _broken(name, pipeline.path, pipeline.line, pipeline.what)
    folder = PipelineFolder(
        pipeline=pipeline,
        path=path,
        transform=_text(path / "transform.py"),
        expectations=_expectations(path / "expectations.json"),
        target_sql=_text(path / "target.sql"),
        decode=_text(path / "decode.py"),
    )
    if folder.quarantines and len(folder.pipeline.targets) > 1:
        raise _broken(
            name,
            path / "__init__.py",
            None,
            "on_violation: the suite judges the first target alone; with several, it refuses",
        )
    return folder


def with_transform(folder: PipelineFolder, file: Path, again: str) -> PipelineFolder:
    """Returns the pipeline with another file's transform in place of its own. The folder on disk stays as it is.

    Raises `BadDefinition` if the file is missing or is no Python. The message names file, line and the command `again`.
    """
    another = again.replace(shown_path(file), "FILE.py")
    try:
        source = file.read_text(encoding="utf-8")
        compile(source, file, "exec")
    except SyntaxError as error:
        place = f"{shown_path(file)}:{error.lineno}" if error.lineno else shown_path(file)
        raise BadDefinition(f"{place}: syntax: {error.msg}", next_command=again) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text of UTF-8 without NUL"
        raise BadDefinition(f"{shown_path(file)}: cannot be read: {why}", next_command=another) from None
    if file.suffix != ".py":
        raise BadDefinition(
            f"{folder.pipeline.name}: {shown_path(file)} cannot be loaded: its name must end in .py",
            next_command=another,
        )
    return replace(folder, transform=source, transform_file=Path(shown_path(file)))


def install_transform(folder: PipelineFolder) -> Path:
    """Writes the folder's transform as its transform.py, whole or not at all, and returns where it lies.

    Raises `OSError` if the folder cannot be written.
    """
    place = (folder.path / "transform.py").resolve()  # a link keeps leading to its file
    if _text(place) == folder.transform:
        return place
    new = place.with_name(f".transform.py.{os.getpid()}")
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(folder.transform or "")
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            new.chmod(place.stat().st_mode)
        new.replace(place)
    finally:
        new.unlink(missing_ok=True)
    return place


def shown_path(path: Path) -> str:
    """Returns a path as a person would type it in the current folder."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _expectations(path: Path) -> dict[str, Any] | None:
    text = _text(path)
    if text is None:
        return None
    try:
        suite: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{shown_path(path)}:{error.lineno}:{error.colno}"
        raise BadDefinition(f"{place}: {error.msg}", next_command=f"lockstep check {path.parent.name}") from None
    if why := wrong_type(suite):
        raise _broken(path.parent.name, path, None, why)
    return suite


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _broken(path.parent.name, path, None, f"cannot be read: {error}") from None


def _broken(name: str, path: Path, line: int | None, what: str) -> BadDefinition:
    place = f"{shown_path(path)}:{line}" if line else shown_path(path)
    return BadDefinition(f"{place}: {what}", next_command=f"lockstep check {name}")
