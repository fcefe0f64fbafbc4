"""Writes a copy of a pipeline: its definition, source and DDL, with other names."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lockstep.core.health.ownership import tables_of
from lockstep.core.lake.iceberg import CATALOG, Iceberg, recorded_table
from lockstep.core.offsets import OffsetRange
from lockstep.core.pipeline.stores import BEHIND, rows_table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lockstep.core.offsets import Stream, TopicView
    from lockstep.core.pipeline.definition import Pipeline

LATEST, EARLIEST = "latest", "earliest"
# The names of indexes are the schema's, not the table's. `if not exists` would leave out an index of the same name.
_INDEXES = (
    r'(\bindex\s+(?:concurrently\s+)?(?:if\s+not\s+exists\s+)?)("?)(?!on\b)([a-z_][a-z0-9_$]*)\2(?=\s+on\b)',
    r'(\bconstraint\s+)("?)([a-z_][a-z0-9_$]*)\2(?=\s+(?:primary|unique|exclude)\b)',
)
_PLACE = r"\b(?:table(?:\s+if\s+(?:not\s+)?exists)?(?:\s+only)?|on(?:\s+only)?|into|update|from)\s+"
_COMMENTS = r"--[^\n]*|/\*.*?\*/"
_OTHERS = (
    r"\bcreate\s+(?:or\s+replace\s+)?(?:materialized\s+)?(view|function|procedure|sequence)\s+"
    r"(?:if\s+not\s+exists\s+)?([^\s(]+)"
)
_LONGEST = 63


@dataclass(frozen=True, slots=True, order=True)
class Gone:
    """Offsets that the original has and its copy cannot read. `retention` is False if they are of an older log."""

    offsets: OffsetRange
    topic_id: str
    retention: bool

    def meets(self, other: Gone) -> bool:
        """Returns True if the other offsets follow, of the same log. Growth of a topic closes streams, not the log."""
        log = (self.offsets.topic_partition, self.topic_id, self.retention, self.offsets.until_offset)
        return log == (other.offsets.topic_partition, other.topic_id, other.retention, other.offsets.from_offset)

    def joined(self, other: Gone) -> Gone:
        """Returns both as one."""
        return replace(self, offsets=replace(self.offsets, until_offset=other.offsets.until_offset))

    def document(self) -> dict[str, Any]:
        """Describes the offsets, for `--json`."""
        at = self.offsets
        where = {
            "partition": at.topic_partition.partition,
            "from_offset": at.from_offset,
            "until_offset": at.until_offset,
        }
        return where | {"topic_id": self.topic_id, "why": "retention" if self.retention else "another log"}

    def __str__(self) -> str:
        why = "were deleted from the log" if self.retention else f"are of an older log, topic id {self.topic_id}"
        at = self.offsets
        return f"{at.topic_partition}: offsets [{at.from_offset}, {at.until_offset}) {why}"


def copy_of(pipeline: Pipeline, name: str) -> Pipeline:
    """Returns the pipeline under another name, with tables of its own.

    Begins at log start where the original began at its end, which has moved since.
    """
    tables = copied_tables(pipeline, name)
    targets = tuple(replace(target, table=tables.get(target.table, target.table)) for target in pipeline.targets)
    return replace(
        pipeline,
        name=name,
        target=targets if isinstance(pipeline.target, tuple) else targets[0],
        start=EARLIEST if pipeline.start == LATEST else pipeline.start,
    )


def copied_tables(pipeline: Pipeline, name: str) -> dict[str, str]:
    """Returns each table of a pipeline and the table of its copy. Files have none: their folder bears the name."""
    found = {}
    for table in tables_of(pipeline):
        schema, _, bare = table.name.rpartition(".")  # of a table of a lake, its catalog and namespace
        alone = len(pipeline.targets) == 1 or bare == pipeline.name
        found[table.name] = recorded_table(f"{schema}.{name}" if alone else f"{schema}.{name}_{bare}")
    return found


def copied_names(pipeline: Pipeline, name: str) -> dict[str, str]:
    """Returns each table that target.sql may make, and its name in the copy. A table behind a view is among them."""
    found = {table: other for table, other in copied_tables(pipeline, name).items() if not isinstance(other, Iceberg)}
    if rows_table_of(pipeline):
        found[pipeline.first.table + BEHIND] = found[pipeline.first.table] + BEHIND
    return found


def copied_source(source: bytes, pipeline: Pipeline, copy: Pipeline) -> bytes:
    """Returns the source of a definition with the texts replaced in which its copy differs. Keeps all else."""
    tables = copied_tables(pipeline, copy.name)
    lines = source.splitlines(keepends=True)
    for node, text in sorted(_replaced(source, pipeline, copy, tables), key=lambda each: _place(each[0]), reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        before, behind = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        lines[first : last + 1] = [before + f'"{text}"'.encode() + behind]
    return b"".join(lines)


def copied_ddl(ddl: str, tables: Mapping[str, str]) -> str:
    """Returns DDL for the copy's tables. Their indexes have other names, as these are unique in a schema."""
    for table, other in tables.items():
        (schema, _, bare), new = table.partition("."), other.partition(".")[2]
        named = rf'(?<![\w$"])("?){schema}\1(\s*\.\s*)("?){bare}\3(?![\w$])'
        ddl = re.sub(named, rf"\g<1>{schema}\g<1>\g<2>\g<3>{new}\g<3>", ddl, flags=re.IGNORECASE)
    bares = {table.partition(".")[2]: other.partition(".")[2] for table, other in tables.items()}
    for pattern in _INDEXES:
        ddl = re.sub(pattern, lambda found: _renamed_index(found, bares), ddl, flags=re.IGNORECASE)
    return ddl


def out_of_reach(ddl: str, tables: Iterable[str]) -> str | None:
    """Returns what in DDL a copy would take from the original, or None.

    That is a table without its schema, or a view, function or sequence, which the copy's `migrate` would make anew.
    """
    ddl = re.sub(_COMMENTS, " ", ddl, flags=re.DOTALL)
    for _, _, bare in (table.partition(".") for table in tables):
        if re.search(rf'{_PLACE}"?{bare}"?(?![\w$".])', ddl, re.IGNORECASE):
            return f"names {bare} without its schema"
    other = re.search(_OTHERS, ddl, re.IGNORECASE)
    return f"also makes the {other[1].lower()} {other[2]}, which is not its table's alone" if other else None


def gone(streams: Iterable[Stream], view: TopicView) -> list[Gone]:
    """Returns the offsets that a pipeline has passed and that its log holds no more, by partition.

    `streams` are all of the pipeline, by partition, the oldest first.
    """
    every = [stream for stream in streams if stream.topic_partition.topic == view.topic]
    found: list[Gone] = []
    for stream in every:
        bounds = view.bounds.get(stream.partition)
        begin, end = stream.start_offset, _end_in_log(stream, every, view)
        for first, until, retention in (
            (begin, min(end, bounds.log_start) if bounds else end, True),
            (end, stream.position, False),
        ):
            if first < until:
                piece = Gone(OffsetRange(stream.topic_partition, first, until), stream.topic_id, retention)
                found = [*found[:-1], found[-1].joined(piece)] if found and found[-1].meets(piece) else [*found, piece]
    return sorted(found)


def _end_in_log(stream: Stream, streams: Iterable[Stream], view: TopicView) -> int:
    """Returns the end of the stream's offsets that are today's log: behind it, the records were other ones.

    A truncation keeps the topic id. The next incarnation begins there.
    """
    if (stream.cluster_id, stream.topic_id) != (view.cluster_id, view.topic_id):
        return stream.start_offset
    later = [
        other.start_offset
        for other in streams
        if other.partition == stream.partition and other.incarnation > stream.incarnation
    ]
    return max(stream.start_offset, min([stream.position, *later]))


def _replaced(
    source: bytes, pipeline: Pipeline, copy: Pipeline, tables: Mapping[str, str]
) -> Iterator[tuple[ast.Constant, str]]:
    """Yields the texts of the source that the copy replaces: name and start of the pipeline, and tables."""
    within_call = {"name": (pipeline.name, copy.name), "start": (pipeline.start, copy.start)}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Pipeline":
            given = [(word.arg, word.value) for word in node.keywords] + [("name", each) for each in node.args[:1]]
            for word, value in given:
                was, now = within_call.get(word or "", ("", ""))
                if isinstance(value, ast.Constant) and value.value == was and was != now:
                    yield value, str(now)
    in_lake = list(_of_lake(tree))
    for text, held in in_lake:
        if held in tables:
            yield text, tables[held].partition(".")[2]
    formatted = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    formatted |= {id(text) for text, _ in in_lake}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in formatted:
            table = tables.get(node.value)
            if table:
                yield node, table


def _of_lake(tree: ast.AST) -> Iterator[tuple[ast.Constant, str]]:
    """Yields the text of each `Iceberg(...)` that names a table, with the value that the table has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Iceberg":
            given: dict[str | None, ast.expr] = dict(zip(("table", "catalog"), node.args, strict=False))
            given |= {word.arg: word.value for word in node.keywords}
            table, catalog = given.get("table"), getattr(given.get("catalog"), "value", None)
            if isinstance(table, ast.Constant) and isinstance(table.value, str):
                yield table, f"{catalog or CATALOG}.{table.value}"


def _place(node: ast.Constant) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _renamed_index(found: re.Match[str], bares: Mapping[str, str]) -> str:
    """Returns the name of an index with the table's word in it replaced, or with the copy's word before it."""
    word, quote, index = found.groups()
    for bare, new in bares.items():
        if re.search(rf"(?<![a-z0-9]){bare}(?![a-z0-9])", index):
            index = re.sub(rf"(?<![a-z0-9]){bare}(?![a-z0-9])", new, index, count=1)
            break
    else:
        index = f"{next(iter(bares.values()))}_{index}"
    return f"{word}{quote}{index[:_LONGEST]}{quote}"
