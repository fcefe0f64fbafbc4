"""Starts the process that evaluates definitions, without secrets, and builds the pipelines of what it answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters.definition.server import hide_process
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.pipeline.recorded import pipeline_of_document
from lockstep.core.settings import ENVIRONMENT
from lockstep.core.text import printable_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.pipeline.definition import Pipeline

    Stamp = tuple[tuple[str, int, int, int], ...]

# All that a definition may know of this process's environment. None of it may hold a secret.
GIVEN = re.compile("PATH|HOME|LANG|LC_[A-Z]+|TZ|TMPDIR|LD_LIBRARY_PATH|LOCKSTEP_PIPELINES")
EVALUATOR = """
import sys
sys.path[:] = eval(sys.argv.pop())
from lockstep.adapters.definition.server import answer_request
answer_request()
"""
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
    """Returns the pipeline of each name and file, or its mistake. One process evaluates all that are not known.

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
        for (name, source), line in zip(asked, _ask(asked), strict=True):
            found[source] = pipeline = _pipeline(name, source, line)
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


def _ask(definitions: Sequence[tuple[str, Path]]) -> list[bytes]:
    hide_process()
    withheld = [name for name in ENVIRONMENT if not GIVEN.fullmatch(name)]
    path = [str(Path(each or ".").resolve()) for each in sys.path]
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", EVALUATOR, repr(path)],
            input=json.dumps([SECONDS_EACH, withheld, [(name, str(source)) for name, source in definitions]]).encode(),
            capture_output=True,
            env={name: value for name, value in ENVIRONMENT.items() if name not in withheld},
            close_fds=True,
            start_new_session=True,  # Ctrl-C ends this process, and this one ends it
            timeout=SECONDS_EACH * (len(definitions) + 1),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _away(str(error)) from None
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != len(definitions):
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise _away(said[-1])
    return lines


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
