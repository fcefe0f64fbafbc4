"""Plans: what Spark makes of a transform, looked at before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

# To Spark these are constants of one execution; to a batch that is tried twice they are not.
CLOCKS = {"CurrentTimestamp", "Now", "CurrentDate", "CurrentTime", "LocalTimestamp", "CurDateExpressionBuilder"}
CUTS = {"GlobalLimit", "LocalLimit", "Offset", "Tail", "Sample"}


def shuffles(frame: DataFrame) -> str | None:
    """The first exchange by which rows of several source partitions meet in one task, as Spark says it; None: there is none."""
    plan = frame._jdf.queryExecution().executedPlan()  # noqa: SLF001 - Python lacks it
    for node in _nodes(plan):
        if _kind(node).startswith("ShuffleExchange"):
            return str(node.simpleString(5))
    return None


def unrepeatable(frame: DataFrame) -> tuple[str, ...]:
    """The expressions that give other values when the same records are read again: the clock, chance, where it runs."""
    found: dict[str, None] = {}
    for node in _nodes(_analysed(frame)):
        if _kind(node) == "Sample":
            found["sample"] = None
        for expression in _expressions(node):
            if _kind(expression) in CLOCKS or _is_chance(expression):
                found[_name(expression)] = None
    return tuple(found)


def cuts(frame: DataFrame) -> str | None:
    """What takes some of the records and leaves the others unread, such as a limit; None where nothing does."""
    for node in _nodes(_analysed(frame)):
        if _kind(node) in CUTS and any(_has_records(below) for below in _nodes(node)):
            return _kind(node).removeprefix("Global").removeprefix("Local").lower()
    return None


def reads(frame: DataFrame) -> int:
    """How often the plan reads from Kafka: a transform may use its records twice."""
    return sum("KafkaRelation" in str(node) for node in _nodes(_analysed(frame)) if not node.children().size())


def _analysed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - Python lacks it


def _nodes(plan: Any) -> Iterator[Any]:
    if _kind(plan) == "AdaptiveSparkPlanExec":
        plan = plan.initialPlan()
    yield plan
    for child in _each(plan.children()):
        yield from _nodes(child)
    for inner in _each(plan.subqueries()):
        yield from _nodes(inner)


def _expressions(node: Any) -> Iterator[Any]:
    for expression in _each(node.expressions()):
        yield from _below(expression)


def _below(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _each(expression.children()):
        yield from _below(child)


def _is_chance(expression: Any) -> bool:
    """The innermost expression that is not deterministic: those around it only take it over."""
    return not expression.deterministic() and all(child.deterministic() for child in _each(expression.children()))


def _name(expression: Any) -> str:
    if _kind(expression) in {"PythonUDF", "ScalaUDF"}:
        return str(expression.toString()).partition("(")[0]
    return str(expression.prettyName()).lower()


def _kind(thing: Any) -> str:
    return str(thing.getClass().getSimpleName())


def _has_records(node: Any) -> bool:
    return any(column.name() == "_offset" for column in _each(node.output()))


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]
