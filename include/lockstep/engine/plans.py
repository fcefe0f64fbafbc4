"""Inspects Spark's plan of a transform before anything runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

# To Spark these are constants of one execution. For a batch that is tried twice they are not.
CLOCKS = {"CurrentTimestamp", "Now", "CurrentDate", "CurrentTime", "LocalTimestamp", "CurDateExpressionBuilder"}
ANALYSED, PHYSICAL = "Analyzed Logical Plan", "Physical Plan"
_NODE = re.compile(r"([ :+]*-? ?)(.*)")
_KIND = re.compile(r"(?:\*\(\d+\) )?\W*(\w*)")
KAFKA = "kafka"  # the first word of our source's name
CUTS = {"GlobalLimit", "LocalLimit", "Offset", "Tail", "Sample"}


@dataclass(frozen=True, slots=True)
class PlanNode:
    """One node of a plan as Spark prints it: kind, text and depth."""

    depth: int
    kind: str
    text: str


def shuffles(frame: DataFrame) -> str | None:
    """Returns the first exchange, in Spark's words, or None.

    An exchange brings rows of several source partitions into one task.
    """
    return next((line.text for line in _lines(_plan(frame, PHYSICAL)) if line.kind == "Exchange"), None)


def unrepeatable(frame: DataFrame) -> tuple[str, ...]:
    """Lists the non-deterministic expressions of a plan: clock, random, host. Their values would differ on a retry."""
    found: dict[str, None] = {}
    analysed = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - Python lacks it, and a server tells no expressions
    for node in _nodes(analysed):
        if _kind(node) == "Sample":
            found["sample"] = None
        for expression in _expressions(node):
            if _kind(expression) in CLOCKS or _is_chance(expression):
                found[_name(expression)] = None
    return tuple(found)


def cuts(frame: DataFrame) -> str | None:
    """Names an operator that leaves some records unread, such as a limit, or returns None."""
    lines = _lines(_plan(frame, ANALYSED))
    for place, line in enumerate(lines):
        if line.kind in CUTS and any("_offset#" in below.text for below in _below(lines, place)):
            return line.kind.removeprefix("Global").removeprefix("Local").lower()
    return None


def reads(frame: DataFrame) -> int:
    """Counts the plan's reads from Kafka: a transform may use its records twice."""
    return sum(line.kind == "RelationV2" and f"] {KAFKA} " in line.text for line in _lines(_plan(frame, ANALYSED)))


def _plan(frame: Any, section: str) -> str:
    """Returns a plan as Spark prints it, a node a line: from the JVM, or from a server's answer."""
    if hasattr(frame, "_jdf"):
        execution = frame._jdf.queryExecution()  # noqa: SLF001 - Python lacks it
        return str((execution.analyzed() if section == ANALYSED else execution.executedPlan()).toString())
    said = str(frame._explain_string(extended=True))  # noqa: SLF001 - `explain` itself prints
    plan = said.partition(f"== {section} ==\n")[2].partition("\n\n==")[0]
    return plan.partition("\n")[2] if section == ANALYSED else plan  # a line with the columns' names goes before it


def _lines(plan: str) -> list[PlanNode]:
    found = []
    for line in plan.splitlines():
        prefix, text = _NODE.match(line).groups()  # type: ignore[union-attr]  # it matches every line
        found.append(PlanNode(len(prefix), _KIND.match(text)[1], text))  # type: ignore[index]
    return found


def _below(lines: Sequence[PlanNode], place: int) -> Iterator[PlanNode]:
    for line in lines[place + 1 :]:
        if line.depth <= lines[place].depth:
            return
        yield line


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _each(plan.children()):
        yield from _nodes(child)
    for inner in _each(plan.subqueries()):
        yield from _nodes(inner)


def _expressions(node: Any) -> Iterator[Any]:
    for expression in _each(node.expressions()):
        yield from _inner(expression)


def _inner(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _each(expression.children()):
        yield from _inner(child)


def _is_chance(expression: Any) -> bool:
    """Returns True for the innermost non-deterministic expression. Those around it only inherit the property."""
    return not expression.deterministic() and all(child.deterministic() for child in _each(expression.children()))


def _name(expression: Any) -> str:
    if _kind(expression) in {"PythonUDF", "ScalaUDF"}:
        return str(expression.toString()).partition("(")[0]
    return str(expression.prettyName()).lower()


def _kind(thing: Any) -> str:
    return str(thing.getClass().getSimpleName())


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]
