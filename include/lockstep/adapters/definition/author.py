"""Runs an author's module, and describes its Pipeline as plain JSON. Only a process without secrets calls it."""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from difflib import get_close_matches
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from inspect import signature
from typing import TYPE_CHECKING, Any

import lockstep
from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline import definition
from lockstep.core.pipeline.definition import Pipeline

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path
    from types import CodeType, ModuleType

UNEXPECTED = re.compile(r"^(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
UNKNOWN_NAME = re.compile(r"(?:cannot import name|^name|module 'lockstep' has no attribute) '(\w+)'")


class _AsItStands(SourceFileLoader):
    """A loader that compiles the source itself: cached bytecode may be older than an edit of the same second."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - the signature is the import system's
        return self.source_to_code(self.get_data(self.path), self.path)


class _Broken(Exception):  # noqa: N818 - it carries an answer
    """A mistake of the author's, with its file and line."""


def describe(name: str, source: Path, withheld: Collection[str] = ()) -> dict[str, Any]:
    """Runs the module and returns `document`, or `broken` with the file, the line or None, and the mistake.

    A file of the folder that reads a withheld variable is a mistake: its default would be a silent change.
    """
    _refuse_reading(withheld, source.parent)
    try:
        document = _one_pipeline(_run(name, source), name, source).document()
        json.dumps(document)
    except _Broken as broken:
        return {"broken": list(broken.args)}
    except Exception as error:  # noqa: BLE001 - a value of the author's that is no value of a definition
        return {"broken": [str(source), None, f"{type(error).__name__}: {_words(error)}"]}
    return {"document": document}


def _run(name: str, source: Path) -> ModuleType:
    full_name = f"_lockstep_pipelines_{name}"
    spec = ModuleSpec(full_name, _AsItStands(full_name, str(source)), origin=str(source), is_package=True)
    spec.submodule_search_locations = [str(source.parent)]  # the definition may import its neighbours
    module = sys.modules[full_name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]  # set three lines above
    except SyntaxError as error:
        raise _Broken(error.filename or str(source), error.lineno, f"syntax: {error.msg}") from None
    except BadDefinition as error:
        raise _Broken(str(source), _line(error, source), error.message) from None
    except BaseException as error:  # noqa: BLE001 - whatever a definition raises is that definition's mistake
        what = _words(error) + _meant(error)
        raise _Broken(str(source), _line(error, source), f"{type(error).__name__}: {what}") from None
    return module


def _refuse_reading(withheld: Collection[str], folder: Path) -> None:
    kind = os._Environ  # noqa: SLF001 - the class of the mapping, which has no public name
    read = kind.__getitem__

    def guarded(self: Any, name: str) -> str:
        caller = sys._getframe(1)  # noqa: SLF001 - whose code asks: libraries may
        while caller.f_back and caller.f_globals.get("__name__") in {"os", "collections.abc", "_collections_abc"}:
            caller = caller.f_back
        if name in withheld and caller.f_code.co_filename.startswith(f"{folder}/"):
            raise BadDefinition(f"it reads the environment variable {name}, which no definition is given")
        value: str = read(self, name)
        return value

    kind.__getitem__ = guarded  # type: ignore[assignment,method-assign]


def _words(error: BaseException) -> str:
    return " ".join(str(error).split()) or "no reason given"


def _meant(error: BaseException) -> str:
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
        raise _Broken(str(source), None, f"a folder holds exactly one Pipeline, here are {len(found)} ({names_found})")
    (pipeline,) = found.values()
    if pipeline.name != name:
        raise _Broken(str(source), None, f"name is {pipeline.name!r}, and the folder's is {name!r}: they must be equal")
    return pipeline


def _line(error: BaseException, source: Path) -> int | None:
    """Returns the last line of the definition's own file that the error passed through."""
    return next(reversed(list(_lines(error, source))), None)


def _lines(error: BaseException, source: Path) -> Iterator[int | None]:
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == str(source):
            yield frame.lineno
