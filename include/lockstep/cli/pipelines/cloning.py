"""`clone` copies a pipeline's folder, for another key, kind of target or guarantee over the same topic."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.history import of_ledger, refuse_ended
from lockstep.cli.options import Name
from lockstep.cli.output import AsJson, say, show
from lockstep.cli.pipelines.sharing import conflicts_of, definitions_on_disk
from lockstep.context.systems import broker, open_ledger
from lockstep.core.changes.clone import (
    LATEST,
    copied_ddl,
    copied_names,
    copied_source,
    copied_tables,
    copy_of,
    out_of_reach,
)
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.pipeline.names import good_name, refuse_bad_name, topic_words
from lockstep.core.pipeline.targets import shares, topics_of

if TYPE_CHECKING:
    from pathlib import Path

    from lockstep.core.changes.clone import Gone
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder

DEFINITION, DDL = "__init__.py", "target.sql"
CopyNameOption = Annotated[str, typer.Option("--to", help="The copy's name.", metavar="OTHER", show_default=False)]


def clone_command(name: Name, to: CopyNameOption, as_json: AsJson = False) -> None:
    """Copy a pipeline's folder, with a name and tables of its own.

    A pipeline keeps its key, kind of target and guarantee for good. For another one, edit the copy before its first
    run. The copy reads the log from where it begins. Nothing is recorded, and the original goes on.
    """
    original = folders.load(name)
    copy = _copy(original.pipeline, to)
    _refuse_taken(copy, name)
    folder = folders.root() / to
    dag, dag_text = _dag(name, to)
    for place in (folder, dag):
        if place and place.exists():
            raise Refusal(f"{folders.shown_path(place)} is there already", next_command=_another(name))
    _write(original, copy, folder)
    if dag:
        dag.write_text(dag_text, encoding="utf-8")
    gone, why = _gone(original.pipeline)
    files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    tables = copied_tables(original.pipeline, to)
    next_commands = [f"lockstep {command}" for command in (f"check {to}", f"migrate {to}", f"run {to} --until-idle")]
    document = {
        "pipeline": to,
        "clone_of": name,
        "folder": str(folder),
        "files": files,
        "dag": str(dag) if dag else None,
        "tables": [{"table": table, "copy": other} for table, other in tables.items()],
        "start": copy.start,
        "gone": None if gone is None else [each.document() for each in gone],
        "next": next_commands,
    }

    def for_people() -> None:
        for place in (*(folder / file for file in files), *([dag] if dag else [])):
            say(folders.shown_path(place))
        for table, other in tables.items():
            say(f"{other}: the copy of {table}")
        if original.pipeline.start == LATEST:
            say(f"{to}: start is {copy.start}; {LATEST} would leave out what {name} has read")
        for each in gone or ():
            say(f"{each}; {to} will not have their records")
        if why:
            say(f"not compared with the log: {why}")
        beside = f", and {DDL} beside it" if DDL in files else ""
        say(f"Edit key, kind of target or guarantee in {folders.shown_path(folder / DEFINITION)}{beside}")
        say(f"Next: {', then '.join(next_commands)}")

    show(document, as_json, for_people)


def _copy(pipeline: Pipeline, to: str) -> Pipeline:
    """Returns the copy as a value. Refuses a name that it cannot have, and a table that is shared."""
    if to == pipeline.name:
        raise Refusal(f"{to}: a copy needs a name of its own", next_command=_another(pipeline.name))
    for _, topic in topics_of(pipeline.targets):
        raise Refusal(
            f"{pipeline.name}: it sends to {topic.name}, and a copy would send there, too",
            next_command=f"lockstep new {to} --topic {topic_words(pipeline.topic)}",
        )
    try:
        refuse_bad_name(to)
        copy = copy_of(pipeline, to)
    except BadDefinition as bad:
        good = good_name(to)
        other = "ANOTHER_NAME" if good == pipeline.name or good in folders.pipeline_names() else good
        raise Refusal(bad.message, next_command=_another(pipeline.name, other)) from None
    for target in pipeline.targets:
        if shares(target):
            raise Refusal(
                f"{pipeline.name}: it shares {target.table} with {', '.join(shares(target))}, whose rows a copy would miss",
                next_command=f"lockstep new {to} --topic {topic_words(pipeline.topic)}",
            )
    return copy


def _refuse_taken(copy: Pipeline, name: str) -> None:
    refuse_ended(copy.name)
    if of_ledger(copy.name):
        raise Refusal(
            f"the ledger has a pipeline {copy.name} already, with a history of its own",
            next_command=f"lockstep batches {copy.name}",
        )
    for found in conflicts_of([copy], definitions_on_disk())[copy.name]:
        raise Refusal(found.reason, next_command=_another(name))


def _dag(name: str, to: str) -> tuple[Path | None, str]:
    """Returns the place and the text of the copy's DAG file, if the original has one that imports it."""
    dags = folders.dags()
    file = dags / f"{name}.py" if dags else None
    if file is None or not file.is_file():
        return None, ""
    text, found = re.subn(rf"\b(pipelines\.|DAGs of ){name}\b", rf"\g<1>{to}", file.read_text(encoding="utf-8"))
    return (file.with_name(f"{to}.py"), text) if found else (None, "")


def _write(original: PipelineFolder, copy: Pipeline, folder: Path) -> None:
    """Writes the whole folder or nothing. It gets its name when it loads as the copy."""
    name, half = original.pipeline.name, folder.with_name(f".{folder.name}.clone")
    shutil.rmtree(half, ignore_errors=True)
    try:
        shutil.copytree(
            original.path, half, ignore=shutil.ignore_patterns("__pycache__", ".*"), copy_function=shutil.copyfile
        )
        source = half / DEFINITION
        source.write_bytes(copied_source(source.read_bytes(), original.pipeline, copy))
        _write_ddl(original, copy, half)
        _refuse_another(half, copy, name)
        half.rename(folder)
    except OSError as error:
        what = error.strerror or "some of its files cannot be read"
        raise Refusal(
            f"{folders.shown_path(folder)} cannot be written: {what}", next_command=f"ls -ld {folder.parent}"
        ) from None
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _write_ddl(original: PipelineFolder, copy: Pipeline, half: Path) -> None:
    tables = copied_names(original.pipeline, copy.name)
    if original.target_sql is None or not tables:
        return
    ddl = copied_ddl(original.target_sql, tables)
    fault = out_of_reach(ddl, tables)
    if fault:
        file = folders.shown_path(original.path / DDL)
        raise Refusal(
            f"{file} {fault}: the copy's migrate would change what is the original's",
            next_command=f"mend {file}, then lockstep clone {original.pipeline.name} --to {copy.name}",
        )
    (half / DDL).write_text(ddl, encoding="utf-8")


def _refuse_another(half: Path, copy: Pipeline, name: str) -> None:
    """Refuses a definition whose name or tables are not plain texts, because the copy would be another pipeline."""
    file = folders.shown_path(folders.root() / name / DEFINITION)
    by_hand = f"write them as texts, then lockstep clone {name} --to {copy.name}"
    try:
        found = folders.load_from(half, copy.name).pipeline
    except BadDefinition:
        found = None
    if found != copy:
        raise Refusal(f"{file}: it computes name, table or start, which clone cannot rewrite", next_command=by_hand)


def _gone(pipeline: Pipeline) -> tuple[list[Gone] | None, str | None]:
    """Returns the offsets that the copy cannot read. If ledger or broker is away, returns None and the reason."""
    from lockstep.steps.changes.clone import gone_from_log

    try:
        with open_ledger() as conn:
            return gone_from_log(conn, broker(), pipeline), None
    except Refusal as refusal:
        return None, refusal.message


def _another(name: str, to: str = "ANOTHER_NAME") -> str:
    return f"lockstep clone {name} --to {to}"
