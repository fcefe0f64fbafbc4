"""Finds calls in a transform's source that depend on the clock, on random numbers, or on the host."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

CLOCK = "use run.planned_at"
CHANCE = "take it from the record, such as F.xxhash64 of its columns; where it is a time, use run.planned_at"
COORDINATES_HINT = "take it from _stream and _offset; where it is a time, use run.planned_at"
SPARK_FUNCTIONS = "pyspark.sql.functions."
# Spark's names for them in a plan, however they were written: `F.now()`, `F.expr("now()")`, SQL.
EXPRESSIONS = {
    **dict.fromkeys(("current_timestamp", "current_date", "curdate", "current_time", "localtimestamp", "now"), CLOCK),
    **dict.fromkeys(("rand", "randn", "random", "uuid", "shuffle", "randstr", "uniform", "sample"), CHANCE),
    **dict.fromkeys(("monotonically_increasing_id", "spark_partition_id", "input_file_name"), COORDINATES_HINT),
}
CALLS = {
    **dict.fromkeys(("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today"), CLOCK),
    **dict.fromkeys(("datetime.date.today", "time.time", "time.time_ns", "time.monotonic", "time.perf_counter"), CLOCK),
    **dict.fromkeys(("pandas.Timestamp.now", "pandas.Timestamp.utcnow", "pandas.Timestamp.today"), CLOCK),
    **dict.fromkeys(("uuid.uuid1", "uuid.uuid4", "os.urandom"), CHANCE),
    **dict.fromkeys(("os.getpid", "socket.gethostname"), COORDINATES_HINT),
    **{f"{SPARK_FUNCTIONS}{name}": remedy for name, remedy in EXPRESSIONS.items()},
}
CHANCES = ("random.", "secrets.", "numpy.random.")
SEEDED = {"random.Random", "random.seed", "numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.seed"}
WITHOUT_ARGUMENTS = {"time.gmtime", "time.localtime", f"{SPARK_FUNCTIONS}unix_timestamp", "datetime.datetime.now"}


@dataclass(frozen=True, slots=True, order=True)
class Doubt:
    """One call that may give other rows when the same records are read again.

    `line` is 0 if only Spark's plan shows the call.
    """

    line: int
    function: str
    call: str
    remedy: str

    def __str__(self) -> str:
        place = f"transform.py:{self.line}" if self.line else "transform.py"
        return f"{place}: {self.function}: {self.call} is another at every attempt; {self.remedy}"


def doubts(source: str) -> tuple[Doubt, ...]:
    """Returns every call in the source that is known to give another value each time, by line.

    Leaves out a generator with a seed.
    """
    tree = ast.parse(source)
    return tuple(sorted(_calls(tree, imported_names(tree), "the module")))


def unseen(found: Iterable[Doubt], function: str, expressions: Iterable[str]) -> tuple[Doubt, ...]:
    """Returns the expressions that only a function's plan shows: they stand in SQL, or come from other modules."""
    known = {doubt.call.removesuffix("()").rpartition(".")[2] for doubt in found}
    return tuple(
        Doubt(0, function, f"{name}()", EXPRESSIONS.get(name, CHANCE))
        for name in dict.fromkeys(expressions)
        if name not in known
    )


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Returns, per imported name, the full name that it stands for."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                names[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _calls(node: ast.AST, names: Mapping[str, str], function: str) -> Iterator[Doubt]:
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(child, ast.Call):
            remedy = _remedy(child, dotted_name(child.func, names))
            if remedy:
                yield Doubt(child.lineno, function, f"{ast.unparse(child.func)}()", remedy)
        yield from _calls(child, names, inside)


def _remedy(call: ast.Call, name: str) -> str | None:
    if name in SEEDED and (call.args or call.keywords):
        return None
    if name in WITHOUT_ARGUMENTS:  # with an argument they depend on it alone, except now(zone)
        return CLOCK if not (call.args or call.keywords) or name.endswith(".now") else None
    return CALLS.get(name) or (CHANCE if name.startswith(CHANCES) else None)


def dotted_name(node: ast.expr, names: Mapping[str, str]) -> str:
    """Returns the full name that an imported expression stands for. Other names are empty at their beginning."""
    if isinstance(node, ast.Attribute):
        return f"{dotted_name(node.value, names)}.{node.attr}"
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""
