"""Loads pipelines from disk, one folder each. Every mistake is named by file, line and field."""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from dataclasses import replace
from difflib import get_close_matches
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, module_from_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lockstep
from lockstep.core.errors import BadDefinition, Refusal, quoted
from lockstep.core.pipeline import definition
from lockstep.core.pipeline.columns import IDENTIFIER
from lockstep.core.pipeline.definition import Pipeline
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.core.pipeline.violations import wrong_type
from lockstep.core.settings import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import CodeType, ModuleType

PIPELINES_VARIABLE = "LOCKSTEP_PIPELINES"
UNEXPECTED = re.compile(r"^(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
UNKNOWN_NAME = re.compile(r"(?:cannot import name|^name|module 'lockstep' has no attribute) '(\w+)'")


class _AsItStands(SourceFileLoader):
    """A loader that compiles the source itself: cached bytecode may be older than an edit of the same second."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - the signature is the import system's
        return self.source_to_code(self.get_data(self.path), self.path)


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
    """Returns the project's folder of DAG files, beside include/pipelines, or None if the pipelines are elsewhere."""
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
    """Loads a pipeline with the files beside it. Raises `BadDefinition`, in one line with file, line and field."""
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
    folder = PipelineFolder(
        pipeline=_one_pipeline(_module(name, source), name, source),
        path=path,
        transform=_text(path / "transform.py"),
        expectations=_expectations(path / "expectations.json"),
        target_sql=_text(path / "target.sql"),
        decode=_text(path / "decode.py"),
    )
    if folder.quarantines and len(folder.pipeline.targets) > 1:
        raise _broken(
            name, source, None, "on_violation: the suite judges the first target alone; with several, it refuses"
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


def _module(name: str, source: Path) -> ModuleType:
    full_name = f"_lockstep_pipelines_{name}"
    spec = ModuleSpec(full_name, _AsItStands(full_name, str(source)), origin=str(source), is_package=True)
    spec.submodule_search_locations = [str(source.parent)]
    module = module_from_spec(spec)
    # The definition may import its neighbours. Modules that an earlier load of another folder left must not answer.
    if full_name in sys.modules:
        for old in [known for known in sys.modules if known == full_name or known.startswith(f"{full_name}.")]:
            del sys.modules[old]
    sys.modules[full_name] = module
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]  # set three lines above
    except SyntaxError as error:
        place = Path(error.filename) if error.filename else source
        raise _broken(name, place, error.lineno, f"syntax: {error.msg}") from None
    except BadDefinition as error:
        raise _broken(name, source, _line(error, source), error.message) from None
    except Exception as error:  # noqa: BLE001 - whatever a definition raises is that definition's mistake
        what = (" ".join(str(error).split()) or "no reason given") + _meant(error)
        raise _broken(name, source, _line(error, source), f"{type(error).__name__}: {what}") from None
    return module


def _meant(error: Exception) -> str:
    """Returns a hint at the argument or the public name that was meant by a misspelt one."""
    text, known, wanted = str(error), [], ""
    if isinstance(error, TypeError) and (found := UNEXPECTED.match(text)):
        called = getattr(definition, found[1], None)
        known, wanted = [*signature(called).parameters] if isinstance(called, type) else [], found[2]
    elif isinstance(error, ImportError | NameError | AttributeError) and (found := UNKNOWN_NAME.search(text)):
        known, wanted = lockstep.__all__, found[1]
    close = get_close_matches(wanted, known, 1)
    return f"; from lockstep import {wanted}" if wanted in close else f"; did you mean {close[0]}?" if close else ""


def _one_pipeline(module: ModuleType, name: str, source: Path) -> Pipeline:
    found = {id(value): value for value in vars(module).values() if isinstance(value, Pipeline)}
    if len(found) != 1:
        names_found = ", ".join(pipeline.name for pipeline in found.values()) or "none"
        raise _broken(name, source, None, f"a folder holds exactly one Pipeline, here are {len(found)} ({names_found})")
    (pipeline,) = found.values()
    if pipeline.name != name:
        raise _broken(
            name, source, None, f"name is {pipeline.name!r}, and the folder's is {name!r}: they must be equal"
        )
    return pipeline


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


def _line(error: BaseException, source: Path) -> int | None:
    """Returns the last line of the definition's own file that the error passed through."""
    return next(reversed(list(_lines(error, source))), None)


def _lines(error: BaseException, source: Path) -> Iterator[int | None]:
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == str(source):
            yield frame.lineno
