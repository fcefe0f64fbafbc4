"""Asks the process that evaluates definitions, and builds the pipelines of what it answers. Nothing of it is believed."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters.definition.connection import ServerDied, given_environment, one_server
from lockstep.adapters.definition.server import hide_process
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.pipeline.recorded import pipeline_of_document
from lockstep.core.settings import ENVIRONMENT
from lockstep.core.text import printable_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockstep.core.pipeline.definition import Pipeline

    Stamp = tuple[tuple[str, int, int, int], ...]

SECONDS_EACH = 20.0  # of one definition
MOST_FILES = 500  # of a folder whose definition is remembered
MOST_WORDS = 2_000  # of a mistake's text

_known: dict[Path, tuple[str, Stamp, Pipeline]] = {}


@dataclass(frozen=True, slots=True)
class Broken:
    """A definition that gives no Pipeline: the file, its line if one is known, and the mistake."""

    path: Path
    line: int | None
    what: str


def evaluate(definitions: Sequence[tuple[str, Path]]) -> list[Pipeline | Broken]:
    """Returns the pipeline of each name and file, or its mistake. One process evaluates all, and is kept for later calls.

    A folder whose files are as they were is not evaluated again in the life of this process.
    """
    stamps = {source: _stamp(source.parent) for _, source in definitions}
    found: dict[Path, Pipeline | Broken] = {}
    for name, source in definitions:
        known = _known.get(source)
        if known and stamps[source] and known[:2] == (name, stamps[source]):
            found[source] = known[2]
    asked = [(name, source) for name, source in definitions if source not in found]
    if asked:
        for (name, source), pipeline in zip(asked, _ask(asked), strict=True):
            found[source] = pipeline
            stamp = stamps[source]
            if stamp and not isinstance(pipeline, Broken):
                _known[source] = name, stamp, pipeline
    return [found[source] for _, source in definitions]


def _stamp(folder: Path) -> Stamp | None:
    """Returns what changes with any file of the folder, or None if it holds too many to look at."""
    found = []
    for place in folder.rglob("*"):
        if "__pycache__" in place.parts or not place.is_file():
            continue
        facts = place.stat()
        found.append((str(place), facts.st_size, facts.st_mtime_ns, facts.st_ino))
        if len(found) > MOST_FILES:
            return None
    return tuple(sorted(found))


def _ask(definitions: Sequence[tuple[str, Path]]) -> Iterator[Pipeline | Broken]:
    hide_process()
    environ = given_environment()
    request = {
        "seconds": SECONDS_EACH,
        "environ": environ,
        "withheld": [name for name in ENVIRONMENT if name not in environ],
        "path": [str(Path(each or ".").resolve()) for each in sys.path],
        "folder": str(Path.cwd()),
    }
    for name, source in definitions:
        yield _answer(name, source, json.dumps(request | {"name": name, "source": str(source)}).encode())


def _answer(name: str, source: Path, request: bytes) -> Pipeline | Broken:
    why = ""
    for _ in range(2):  # a process that somebody ended is no mistake of the definition that came next
        try:
            with one_server() as server:
                line = server.answer(request, SECONDS_EACH)
        except ServerDied as error:
            why = str(error)
        except OSError as error:
            raise _away(str(error)) from None
        else:
            return _pipeline(name, source, line)
    return Broken(source, None, f"the process that evaluates definitions ended twice over it: {_words(why)}")


def _away(why: str) -> Refusal:
    line = printable_line(" ".join(why.split())[:MOST_WORDS])
    return Refusal(f"definitions cannot be evaluated: {sys.executable} failed: {line}", next_command="lockstep check")


def _pipeline(name: str, source: Path, line: bytes) -> Pipeline | Broken:
    """Builds the pipeline of an answer. The answer is an author's, so that nothing of it is believed."""
    try:
        answer = json.loads(line)
        if "broken" in answer:
            path, number, what = answer["broken"]
            return Broken(Path(str(path)), number if isinstance(number, int) else None, _words(what))
        pipeline = pipeline_of_document(answer["document"])
    except BadDefinition as error:
        return Broken(source, None, _words(error.message))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Broken(source, None, f"its process answered no definition: {type(error).__name__}")
    if pipeline.name != name:
        return Broken(source, None, f"its process answered the definition of {_words(pipeline.name)}")
    return pipeline


def _words(text: object) -> str:
    return printable_line(str(text)[:MOST_WORDS])
