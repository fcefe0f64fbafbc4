"""Defines `new`, which creates a pipeline's folder, and `check`, which checks definitions without running anything."""

from __future__ import annotations

import os
import shutil
import textwrap
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.differing import differences_of
from lockstep.cli.options import Name, OneName
from lockstep.cli.output import AsJson, say, show
from lockstep.cli.sharing import conflicts_of, definitions
from lockstep.core.definition import Append, Avro, Json, Pipeline, Raw, Upsert
from lockstep.core.determinism import doubts, unseen
from lockstep.core.errors import BadData, BadDefinition, Refusal
from lockstep.core.names import refuse_bad_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.adapters.spark import SparkEngine
    from lockstep.core.columns import Column
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.ownership import Conflict

TEMPLATES = Path(__file__).parent / "templates"
FILES = ("__init__.py", "expectations.json", "target.sql")
DAG_FILE = "dag.py"
SCHEMA_WIDTH = 90
COLUMNS = "id string, at timestamp"


class FormatName(StrEnum):
    """The formats for which `new` writes a definition that works at once. `Custom` would first need a decoder."""

    JSON = "json"
    AVRO = "avro"
    RAW = "raw"


Topic = Annotated[str, typer.Option(help="The Kafka topic to read.", show_default=False)]
Columns = Annotated[
    str | None, typer.Option(help="The fields to keep, as `name type, name type`.", show_default=COLUMNS)
]
KeyColumn = Annotated[
    str | None, typer.Option("--key", help="The column that the Kafka key holds: one row per key.", show_default=False)
]
Kind = Annotated[FormatName, typer.Option("--format", help="What a record is: docs/formats.md.")]
Table = Annotated[str | None, typer.Option(help="The target, as schema.table.", show_default="public.NAME")]


@dataclass(frozen=True, slots=True)
class _LookedAt:
    """The faults of a definition. Without any, its folder and the columns that reach each target."""

    faults: list[str]
    folder: PipelineFolder | None = None
    columns: Sequence[Sequence[Column]] = ()


def new(
    name: Name,
    topic: Topic,
    columns: Columns = None,
    key: KeyColumn = None,
    kind: Kind = FormatName.JSON,
    table: Table = None,
    as_json: AsJson = False,
) -> None:
    """Lay out a pipeline's folder, ready to run."""
    refuse_bad_name(name)  # first, because the table's name may hang on it
    table = table or f"public.{name}"
    # Made before a file is written, so that a refusal leaves nothing behind.
    pipeline = Pipeline(name, topic, _format(kind, columns, key), Upsert(table, (key,)) if key else Append(table))
    for found in conflicts_of([pipeline], definitions())[name]:
        another = f"lockstep new {name} --topic {topic} --table public.ANOTHER"
        raise Refusal(
            found.reason, next_command=f"{another}; to rename {found.owner}, rename its folder, then lockstep hand-over"
        )
    folder = folders.root() / name
    if folder.exists():
        raise Refusal(f"{folders.shown(folder)} is there already", next_command=f"lockstep check {name}")
    texts, dags = _texts(pipeline), folders.dags()
    dag = dags / f"{name}.py" if dags else None
    if dag and dag.exists():
        raise Refusal(f"{folders.shown(dag)} is there already", next_command=f"rm {folders.shown(dag)}")
    dag_text = texts.pop(DAG_FILE)
    _write(folder, texts)
    if dag:
        dag.write_text(dag_text, encoding="utf-8")
    next_commands = [f"lockstep {command} {name}" for command in ("check", "migrate", "run")]
    document = {
        "pipeline": name,
        "folder": str(folder),
        "files": list(FILES),
        "dag": str(dag) if dag else None,
        "next": next_commands,
    }

    def for_people() -> None:
        for file in FILES:
            say(folders.shown(folder / file))
        if dag:
            say(folders.shown(dag))
        if kind is FormatName.AVRO:
            say("LOCKSTEP_REGISTRY must name the schema registry of these records.")
        say(f"Next: {', then '.join(next_commands)}")

    show(document, as_json, for_people)


def _format(kind: FormatName, columns: str | None, key: str | None) -> Json | Avro | Raw:
    if kind is FormatName.RAW:
        for option, given in (("--columns", columns), ("--key", key)):
            if given is not None:
                raise typer.BadParameter("raw bytes have one column, value, and no fields", param_hint=option)
        return Raw()
    schema = COLUMNS if columns is None else columns
    return Json(schema, key) if kind is FormatName.JSON else Avro(schema, key)


def check(name: OneName = None, as_json: AsJson = False) -> None:
    """Look at definitions without running anything."""
    names = [name] if name else folders.names()
    if name and name not in folders.names():
        folders.load(name)  # refuses an unknown name, and lists the known ones
    known = definitions()
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
            }
            for each, faults in found.items()
        ],
    }

    def for_people() -> None:
        for each, faults in found.items():
            if not faults:
                say(f"{each}: ok; {_limits(sound[each])}")
            for fault in faults:
                typer.echo(f"{each}: {fault}", err=True)

    show(document, as_json, for_people)
    if not ok:
        raise typer.Exit(1)


def _limits(pipeline: Pipeline) -> str:
    """Describes the limits of one record, and how long rejects keep their bytes."""
    days = pipeline.reject_retention
    kept = f"; rejects keep their bytes for {days} days" if days else ""
    return f"one record: {pipeline.record_limits.shown}{kept}"


def _looked_at(name: str) -> _LookedAt:
    from lockstep.steps.check import faults

    try:
        folder = folders.load(name)
        place = folders.shown(folder.path)
        engine = trial_engine(folder)
        columns = target_columns(folder, engine)
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
    from lockstep.adapters.spark import SparkEngine
    from lockstep.adapters.spark_connect import REMOTE

    os.environ.pop(REMOTE, None)  # a server shows too little of a plan
    return SparkEngine(folder, "", "")


def target_columns(folder: PipelineFolder, engine: SparkEngine | None) -> Sequence[Sequence[Column]]:
    """Returns the columns that reach each target. A transform runs on an empty frame, which also proves what it keeps."""
    places = range(len(folder.pipeline.targets))
    return [engine.columns(place) if engine else folder.pipeline.columns for place in places]


def _doubts(folder: PipelineFolder, engine: SparkEngine | None, place: str) -> list[str]:
    """Lists the values that transforms take from outside their records, by their source and by Spark's plan."""
    if engine is None or folder.transform is None or folder.pipeline.nondeterministic:
        return []
    found = list(doubts(folder.transform))
    for function, expressions in engine.unrepeatable().items():
        found += unseen(found, function, expressions)
    return [f"{place}/{doubt}; or say nondeterministic=True" for doubt in found]


def _texts(pipeline: Pipeline) -> dict[str, str]:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    columns = pipeline.format.columns
    # A line may end behind a column only, so what stands between name and type is no space until the lines are cut.
    pairs = ", ".join(f"{column.name}\0{column.type}" for column in columns)
    if isinstance(pipeline.format, Raw):
        pairs = pipeline.format.column
    lines = [line.replace("\0", " ") for line in textwrap.wrap(pairs, SCHEMA_WIDTH)]
    environment = Environment(  # noqa: S701 - Python and SQL, no HTML
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True
    )
    values = {
        "name": pipeline.name,
        "topic": pipeline.topic,
        "table": pipeline.first.table,
        "quoted_table": ".".join(f'"{part}"' for part in pipeline.first.table.split(".")),
        "format": type(pipeline.format).__name__,
        "target": type(pipeline.first).__name__,
        "columns": columns,
        "schema": [*(f"{line} " for line in lines[:-1]), lines[-1]],
        "key": pipeline.format.key,
    }
    return {file: environment.get_template(f"{file}.jinja").render(values) for file in (*FILES, DAG_FILE)}


def _write(folder: Path, texts: dict[str, str]) -> None:
    """Writes all files or none. The folder gets its name when it is complete."""
    half = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(half, ignore_errors=True)
    try:
        half.mkdir(parents=True)
        for file, text in texts.items():
            (half / file).write_text(text, encoding="utf-8")
        half.rename(folder)
    except OSError as error:
        shutil.rmtree(half, ignore_errors=True)
        raise Refusal(
            f"{folders.shown(folder)} cannot be written: {error.strerror}", next_command=f"ls -ld {folder.parent}"
        ) from None
