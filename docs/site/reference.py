"""Writes docs/reference from the code: commands, the pipeline value, environment variables, SQL and metrics.

Usage: python docs/site/reference.py. A test compares the files with what this writes.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
import tomllib
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.main import get_command

import lockstep
from lockstep.adapters.prometheus import Scrapes
from lockstep.cli.app import app
from lockstep.cli.examples import EXAMPLES
from lockstep.cli.exits import Exit, exit_of
from lockstep.core import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
WRITTEN = "<!-- Written by `make reference` from the code. -->"
ENVIRONMENT = Path(__file__).with_name("environment.toml")
CODE = ("include/lockstep", "dags", "plugins", "spark_jobs")
VARIABLE = re.compile(r"LOCKSTEP_[A-Z_]+\Z")
LEDGER = ROOT / "include" / "lockstep" / "ledger"
VALUES = {
    "The pipeline": ("Pipeline", "Topics", "Limits", "RecordLimits", "Archive"),
    "Formats": ("Json", "Avro", "Protobuf", "Raw", "Custom", "Delete", "Debezium", "Envelope"),
    "Targets": (
        "Append",
        "Iceberg",
        "Send",
        "Upsert",
        "History",
        "Accumulate",
        "Windows",
        "Count",
        "Sum",
        "Min",
        "Max",
        "Feed",
        "Topic",
    ),
    "Event time": ("EventTime", "Tumbling", "Hopping", "Calendar"),
    "Guarantees": ("PerBatch", "PerPartition", "Idempotent", "AtLeastOnce", "AtMostOnce"),
    "Stores": ("Postgres", "Files"),
    "What a transform may know": ("Run",),
}
FUNCTIONS = {
    "From Python": ("run", "plan", "replay", "status", "verify"),
    "In a notebook": ("rows", "records"),
}


def commands() -> str:
    """Returns the page of the commands: each with its help, its usage and its options."""
    root = get_command(app)
    page = [
        "# Commands",
        "    lockstep run orders --until-idle\n    lockstep run --help",
        (
            "The second line prints what this page says of `run`. "
            "[Exit codes and JSON](../command-line.md) hold for every command."
        ),
    ]
    for path, command in _each_command("lockstep", root):
        with command.make_context(path, [], resilient_parsing=True) as context:
            usage = " ".join([path, *command.collect_usage_pieces(context)])
            records = [(param, param.get_help_record(context)) for param in command.get_params(context)]
        rows = [(f"`{record[0]}`", record[1]) for _, record in records if record and "--help" not in record[0]]
        page += [
            f"## {path}",
            (inspect.cleandoc(command.help or "")),
            f"    {usage}\n    {EXAMPLES[path.removeprefix('lockstep ')]}",
            *_table(("argument or option", "is"), rows),
        ]
    page += [
        "## Exit codes",
        "`lockstep.cli.exits` gives each end its code. The page on exit codes says what to do on each.",
    ]
    page += _table(("code", "name", "errors"), [(str(int(each)), each.name.lower(), _ended_by(each)) for each in Exit])
    return _page(page)


def _each_command(path: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _each_command(f"{path} {name}", command)
        else:
            yield f"{path} {name}", command


def _ended_by(code: Exit) -> str:
    kinds = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, errors.Refusal)]
    return ", ".join(f"`{kind.__name__}`" for kind in kinds if exit_of(kind("")) is code)


def pipeline() -> str:
    """Returns the page of the values that make a definition: each class with its fields, types and defaults."""
    page = [
        "# The pipeline value",
        (
            "```python\nfrom lockstep import Append, Json, Pipeline\n\nCLICKS = Pipeline(\n"
            '    name="clicks",\n    topic="clicks.v1",\n    format=Json("click_id string, user string, at timestamp"),\n'
            '    target=Append("public.clicks"),\n)\n```'
        ),
        (
            "All names are imported from `lockstep`. A field without a default must be given. "
            "The [cookbook](../cookbook.md) shows each in use."
        ),
    ]
    for title, names in VALUES.items():
        page.append(f"## {title}")
        for name in names:
            value = getattr(lockstep, name)
            known = {each.name: each for each in fields(value)} if is_dataclass(value) else {}
            given = inspect.signature(value).parameters
            rows = [
                (
                    f"`{each}`",
                    f"`{known[each].type if each in known else one.annotation}`",
                    _default(known.get(each), one),
                )
                for each, one in given.items()
            ]
            page += [f"### {name}", inspect.cleandoc(value.__doc__), *_table(("field", "type", "default"), rows)]
    for title, names in FUNCTIONS.items():
        page.append(f"## {title}")
        for name in names:
            function = getattr(lockstep, name)
            page += [
                f"### {name}",
                f"`{name}{inspect.signature(function)}`".replace("'", ""),
                inspect.cleandoc(function.__doc__),
            ]
    return _page(page)


def _default(field: Field[Any] | None, given: inspect.Parameter) -> str:
    if field is not None and field.default_factory is not MISSING:
        return f"`{field.default_factory()!r}`"
    return "" if given.default is inspect.Parameter.empty else f"`{given.default!r}`"


def environment() -> str:
    """Returns the page of the environment variables with the meaning of each."""
    meanings = tomllib.loads(ENVIRONMENT.read_text(encoding="utf-8"))
    titles = {
        "servers": "Servers",
        "running": "Running",
        "proofs": "Certificates",
        "stack": "The embedded stack",
        "internal": "Not to be set by hand",
    }
    page = [
        "# Environment variables",
        (
            "    export LOCKSTEP_DSN=postgresql://lockstep_airflow:...@db/warehouse LOCKSTEP_KAFKA=broker:9092\n"
            "    lockstep status"
        ),
        (
            "A variable wins over the embedded stack and over Airflow's connections. "
            "Secrets among them are withheld from programs that do not need them: [security](../security.md)."
        ),
    ]
    for part, known in meanings.items():
        rows = [(f"`{name}NAME`" if name.endswith("_") else f"`{name}`", meaning) for name, meaning in known.items()]
        page += [f"## {titles[part]}", *_table(("variable", "is"), rows)]
    return _page(page)


def variables() -> dict[str, str]:
    """Returns each variable that the code names as a text of its own, with one of the files that do."""
    found: dict[str, str] = {}
    for folder in CODE:
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and VARIABLE.match(node.value):
                    found[node.value] = str(file.relative_to(ROOT))
    return found


def sql() -> str:
    """Returns the page of the ledger's views and tables that `lockstep_reader` may select."""
    schema = (LEDGER / "schema.sql").read_text(encoding="utf-8")
    catalog = (LEDGER / "catalog.txt").read_text(encoding="utf-8")
    readable = set(re.findall(r"^grant \| lockstep\.(\w+) to lockstep_reader \| .*\bselect\b", catalog, re.MULTILINE))
    page = [
        "# SQL",
        (
            "```sql\n-- where the newest rows of a table come from\nselect r.*, o.topic, o.partition, r._offset\n"
            "from public.clicks r join lockstep.origin o using (_stream) order by r._batch desc limit 10;\n```"
        ),
        (
            "The role `lockstep_reader` may select all of this, and change nothing. A migration may change these views and "
            "tables. For programs, the commands' `--json` is the better source."
        ),
        "## Views",
    ]
    for name, text, comment in _made("view", schema):
        if name in readable:
            page += [f"### lockstep.{name}", *([comment] if comment else []), f"```sql\n{text}\n```"]
    page += [
        "## Tables",
        "[schema.sql](../../include/lockstep/ledger/schema.sql) has their types, constraints and comments.",
    ]
    rows = [
        (f"`lockstep.{name}`", ", ".join(f"`{column}`" for column in _columns(text)), comment)
        for name, text, comment in _made("table", schema)
        if name in readable
    ]
    return _page([*page, *_table(("table", "columns", "holds"), rows)])


def _made(kind: str, schema: str) -> Iterator[tuple[str, str, str]]:
    """Yields the name, the statement and the comment above each view or table."""
    for made in re.finditer(rf"^create {kind} (\w+) .*?;(?= *(?:--.*)?$)", schema, re.MULTILINE | re.DOTALL):
        above = schema[: made.start()].splitlines()
        comment = list(itertools.takewhile(lambda line: line.startswith("-- "), reversed(above)))
        yield made[1], made[0], " ".join(line.removeprefix("-- ") for line in reversed(comment))


def _columns(table: str) -> list[str]:
    return [
        name
        for name in re.findall(r'^    "?(\w+)"? ', table, re.MULTILINE)
        if name not in {"constraint", "references", "exclude"}
    ]


def metrics() -> str:
    """Returns the page of the metrics that a scrape answers with."""
    nothing = {"up": {}, "last_errors": [], "seconds": 0.0, "pipelines": []}
    rows = [
        (
            f"`{each.name}{'_total' if each.type == 'counter' else ''}`",
            ", ".join(f"`{label}`" for label in each._labelnames),  # noqa: SLF001
            each.type,
            each.documentation,
        )
        for each in sorted(Scrapes(lambda: nothing).collect(), key=lambda each: each.name)
    ]
    return _page(
        [
            "# Metrics",
            "    lockstep metrics --serve 9300\n    curl http://127.0.0.1:9300/metrics",
            (
                "[Monitoring](../monitoring/README.md) says more of each, with alert rules and a dashboard. "
                "What a run sends to Airflow's own backend is on [another page](../airflow.md#metrics)."
            ),
            *_table(("name", "labels", "type", "is"), rows),
        ]
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Returns a table as one block, or nothing without rows."""
    cells = [[" ".join(cell.split()).replace("|", r"\|") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in [list(head), ["---"] * len(head), *cells]]
    return ["\n".join(lines)] if cells else []


def _page(blocks: list[str]) -> str:
    return "\n\n".join([blocks[0], WRITTEN, *blocks[1:]]) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "environment.md": environment,
    "metrics.md": metrics,
    "pipeline.md": pipeline,
    "sql.md": sql,
}


def main() -> int:
    """Writes each page."""
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
