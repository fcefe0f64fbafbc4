"""Defines `new`, which creates a pipeline's folder."""

from __future__ import annotations

import shutil
import textwrap
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.history import refuse_ended
from lockstep.cli.options import Name
from lockstep.cli.output import AsJson, say, show
from lockstep.cli.pipelines.sharing import conflicts_of, definitions_on_disk
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.pipeline.definition import Append, Avro, Json, Pipeline, Protobuf, Raw, Upsert
from lockstep.core.pipeline.formats import registered_of
from lockstep.core.pipeline.names import refuse_bad_name
from lockstep.installed import install_of, is_installed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TEMPLATE_FOLDER = Path(__file__).parents[1] / "templates"
SUITE_FILE, SUITE_JUDGE = "expectations.json", "great_expectations"
NEW_PIPELINE_FILES = ("__init__.py", SUITE_FILE, "target.sql")
DAG_FILE = "dag.py"
SCHEMA_WIDTH = 90
EXAMPLE_COLUMNS = "id string, at timestamp"


class FormatName(StrEnum):
    """The formats for which `new` writes a definition that works at once. `Custom` would first need a decoder."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON_SCHEMA = "json-schema"
    RAW = "raw"


TopicOption = Annotated[str, typer.Option(help="The Kafka topic to read.", show_default=False)]
ColumnsOption = Annotated[
    str | None, typer.Option(help="The fields to keep, as `name type, name type`.", show_default=EXAMPLE_COLUMNS)
]
KeyColumnOption = Annotated[
    str | None, typer.Option("--key", help="The column that the Kafka key holds: one row per key.", show_default=False)
]
FormatOption = Annotated[FormatName, typer.Option("--format", help="What a record is: docs/formats.md.")]
TargetTableOption = Annotated[str | None, typer.Option(help="The target, as schema.table.", show_default="public.NAME")]


def new_command(
    name: Name,
    topic: TopicOption,
    columns: ColumnsOption = None,
    key: KeyColumnOption = None,
    kind: FormatOption = FormatName.JSON,
    table: TargetTableOption = None,
    as_json: AsJson = False,
) -> None:
    """Lay out a pipeline's folder, ready to run."""
    refuse_bad_name(name)  # first, because the table's name may hang on it
    refuse_ended(name)
    table = table or f"public.{name}"
    # Made before a file is written, so that a refusal leaves nothing behind.
    try:
        pipeline = Pipeline(name, topic, _format(kind, columns, key), Upsert(table, (key,)) if key else Append(table))
    except BadDefinition as fault:
        raise BadDefinition(fault.message, next_command="lockstep new --help") from None
    for found in conflicts_of([pipeline], definitions_on_disk())[name]:
        another = f"lockstep new {name} --topic {topic} --table public.ANOTHER"
        raise Refusal(
            found.reason,
            next_command=f"{another}; or rename its folder, then lockstep rename {found.owner} {name} --reason ...",
        )
    folder = folders.root() / name
    if folder.exists():
        raise Refusal(f"{folders.shown_path(folder)} is there already", next_command=f"lockstep check {name}")
    texts, dags = _texts(pipeline), folders.dags()
    dag = dags / f"{name}.py" if dags else None
    if dag and dag.exists():
        raise Refusal(f"{folders.shown_path(dag)} is there already", next_command=f"rm {folders.shown_path(dag)}")
    dag_text = texts.pop(DAG_FILE)
    _write(folder, texts)
    if dag:
        dag.write_text(dag_text, encoding="utf-8")
    next_commands = [f"lockstep {command} {name}" for command in ("check", "migrate", "run")]
    document = {
        "pipeline": name,
        "folder": str(folder),
        "files": list(texts),
        "dag": str(dag) if dag else None,
        "next": next_commands,
    }

    def for_people() -> None:
        for file in texts:
            say(folders.shown_path(folder / file))
        if dag:
            say(folders.shown_path(dag))
        for line in _remarks(pipeline, texts):
            say(line)
        say(f"Next: {', then '.join(next_commands)}")

    show(document, as_json, for_people)


def _format(kind: FormatName, columns: str | None, key: str | None) -> Json | Avro | Protobuf | Raw:
    if kind is FormatName.RAW:
        for option, given in (("--columns", columns), ("--key", key)):
            if given is not None:
                raise typer.BadParameter("raw bytes have one column, value, and no fields", param_hint=option)
        return Raw()
    schema = EXAMPLE_COLUMNS if columns is None else columns
    kinds: dict[FormatName, Callable[..., Json | Avro | Protobuf]] = {
        FormatName.JSON: Json,
        FormatName.AVRO: Avro,
        FormatName.PROTOBUF: Protobuf,
        FormatName.JSON_SCHEMA: partial(Json, registry=True),
    }
    return kinds[kind](schema, key=key)


def _remarks(pipeline: Pipeline, files: Iterable[str]) -> Iterator[str]:
    if SUITE_FILE not in files:
        yield f"{SUITE_FILE} is left out: Great Expectations is not installed. {install_of(SUITE_JUDGE)} brings it."
    if registered_of(pipeline.format):
        yield "LOCKSTEP_REGISTRY must name the schema registry of these records."


def _texts(pipeline: Pipeline) -> dict[str, str]:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    columns = pipeline.format.columns
    # A line may end behind a column only, so what stands between name and type is no space until the lines are cut.
    pairs = ", ".join(f"{column.name}\0{column.type}" for column in columns)
    if isinstance(pipeline.format, Raw):
        pairs = pipeline.format.column
    lines = [line.replace("\0", " ") for line in textwrap.wrap(pairs, SCHEMA_WIDTH)]
    environment = Environment(  # noqa: S701 - Python and SQL, no HTML
        loader=FileSystemLoader(TEMPLATE_FOLDER), undefined=StrictUndefined, keep_trailing_newline=True
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
        "registry": isinstance(pipeline.format, Json) and pipeline.format.registry,
    }
    # A suite that nothing here can judge would fail the first run.
    files = [file for file in NEW_PIPELINE_FILES if file != SUITE_FILE or is_installed(SUITE_JUDGE)]
    return {file: environment.get_template(f"{file}.jinja").render(values) for file in (*files, DAG_FILE)}


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
            f"{folders.shown_path(folder)} cannot be written: {error.strerror}", next_command=f"ls -ld {folder.parent}"
        ) from None
