"""Asks the driver's JVM what Spark did for an attempt: its stages, memory and garbage collection.

It asks Spark's own status store field by field. The store's JSON would load a mapper for half a second first.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockstep.core.figures import CLUSTER, LOCAL, Application, Figures, Stage
from lockstep.engine.part_reader import REPORT
from lockstep.engine.plans import KAFKA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

EVENTS_MILLISECONDS = 500  # that Spark's listeners have to catch up with the jobs that have ended
QUANTILES = (0.5, 1.0)
WEB = ("http://", "https://")
FOLDERS = re.compile(r" at \S*/")  # in front of the file that began a job: they are this machine's
SKIPPED = "skipped"  # its rows were there from an earlier job
SCAN_NODE, TASKS_NODE, FILTER_NODE = f"BatchScan {KAFKA} ", "MapInArrow", "Filter"  # Spark's names, as those below
ROWS_METRIC = "number of output rows"
HEAP, MEBIBYTE = "JVMHeapMemory", 1024 * 1024


def application(context: SparkContext) -> Application:
    """Returns the application with its pages and its event log, if it has them. Without them, a read goes on."""
    ui = path = None
    with suppress(Exception):
        ui, logger = context.uiWebUrl, _jvm_context(context).eventLogger()
        path = str(logger.get().logWriter().logPath()).removeprefix("file:") if logger.isDefined() else None
    return Application(str(context.applicationId), ui if ui and ui.startswith(WEB) else None, path)


class Memory:
    """The heaps and the garbage collectors of an application's JVMs."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._is_local = str(context.master).startswith("local")
        java = context._jvm.java  # type: ignore[union-attr]  # noqa: SLF001
        self.every_task = java.util.ArrayList()  # once: to find a name of Java takes milliseconds
        beans = java.lang.management.ManagementFactory
        self._heap = beans.getMemoryMXBean()
        self._pools = [pool for pool in beans.getMemoryPoolMXBeans() if str(pool.getType().name()) == "HEAP"]
        self._collectors = list(beans.getGarbageCollectorMXBeans())

    def begin(self) -> int:
        """Forgets the driver's peak. Returns the milliseconds of garbage collection so far, in all JVMs."""
        for pool in self._pools:
            pool.resetPeakUsage()
        return self.collected()

    def collected(self) -> int:
        """Returns the milliseconds of garbage collection so far, in all JVMs."""
        here = sum(collector.getCollectionTime() for collector in self._collectors)
        return int(here) + sum(int(each.totalGCTime()) for each in self._executors())

    def of(self, stages: tuple[Stage, ...], milliseconds: int) -> Figures:
        """Returns these stages with the heap of the JVMs that read: the driver's, or the fullest executor's."""
        if self._is_local:
            limit = self._heap.getHeapMemoryUsage().getMax()
            peak = min(sum(pool.getPeakUsage().getUsed() for pool in self._pools), limit)
            return Figures(LOCAL, stages, peak, limit, milliseconds / 1000)
        known = [each.peakMemoryMetrics() for each in self._executors()]
        peaks = [peak for each in known if each.isDefined() and (peak := each.get().getMetricValue(HEAP))]
        limit = _jvm_context(self._context).executorMemory() * MEBIBYTE
        return Figures(CLUSTER, stages, max(peaks, default=None), limit, milliseconds / 1000)

    def _executors(self) -> list[Any]:
        """Returns the executors in JVMs of their own, also those that have ended."""
        if self._is_local:
            return []
        every = _jvm_context(self._context).statusStore().executorList(False)  # noqa: FBT003 - Scala's
        return [each for each in _items(every) if each.id() != "driver"]


class Meter:
    """The figures of one attempt, from when it is made. Attempts side by side share memory and collections."""

    def __init__(self, session: SparkSession, memory: Memory) -> None:
        self._session, self._context, self._memory = session, session.sparkContext, memory
        self._before = memory.begin()
        self.groups: list[str] = []

    def figures(self) -> Figures:
        """Returns what ran under the groups, and the memory and collections since the meter was made."""
        _jvm_context(self._context).listenerBus().waitUntilEmpty(EVENTS_MILLISECONDS)
        found = self._memory.of(tuple(self._stages()), self._memory.collected() - self._before)
        with suppress(Exception):  # a Spark that names them otherwise has all other figures
            found = replace(found, records=self._records())
        return found

    def _records(self) -> int | None:
        """Returns the rows that came from our source, or from the tasks that write them, by Spark's own metrics.

        Asks for the jobs of the newest group, because those before it were given up. Returns None if it ran no such plan.
        """
        tracker, store = self._context.statusTracker(), _jvm_context(self._context).statusStore()
        plans: Any = self._session._jsparkSession.sharedState().statusStore()  # noqa: SLF001
        jobs = tracker.getJobIdsForGroup(self.groups[-1])
        asked = [store.jobWithAssociatedSql(job)._2() for job in jobs]  # noqa: SLF001 - a pair of Scala
        queries = {query.get() for query in asked if query.isDefined()}
        counts = [count for query in queries for count in _counts(plans, query)]
        return sum(counts) if counts else None

    def _stages(self) -> Iterator[Stage]:
        jvm: Any = self._context._jvm  # noqa: SLF001 - the store's arguments are Java's
        quantiles = self._context._gateway.new_array(jvm.double, len(QUANTILES))  # type: ignore[union-attr]  # noqa: SLF001
        for place, quantile in enumerate(QUANTILES):
            quantiles[place] = quantile
        tracker, store = self._context.statusTracker(), _jvm_context(self._context).statusStore()
        jobs = {job for group in self.groups for job in tracker.getJobIdsForGroup(group)}
        for stage in sorted({stage for job in jobs for stage in _items(store.job(job).stageIds())}):
            tries = list(_items(store.stageData(stage, False, self._memory.every_task, True, quantiles)))  # noqa: FBT003 - Scala's
            yield from sorted(
                (_stage(each) for each in tries if _state(each) != SKIPPED), key=lambda one: one.try_number
            )


def _counts(plans: Any, query: int) -> Iterator[int]:
    """Yields what each source of a query has given, and below zero what was no record of it.

    A source that several plans share has given its rows to the first one alone.
    """
    values, seen = plans.executionMetrics(query), set()
    for node in _items(plans.planGraph(query).allNodes()):
        name = str(node.name())
        is_report = name in {TASKS_NODE, FILTER_NODE} and REPORT in str(node.desc())
        if not (is_report or name.startswith(SCAN_NODE)):
            continue
        for metric in _items(node.metrics()):
            number = metric.accumulatorId()
            if metric.name() == ROWS_METRIC and number not in seen and (value := values.get(number)).isDefined():
                seen.add(number)
                count = int(str(value.get()).replace(",", ""))
                yield -count if name == FILTER_NODE else count


def _stage(each: Any) -> Stage:
    began, ended = _time(each.submissionTime()), _time(each.completionTime())
    spread = each.taskMetricsDistributions()
    times = spread.get().duration() if spread.isDefined() else None
    return Stage(
        stage=each.stageId(),
        try_number=each.attemptId(),
        name=FOLDERS.sub(" at ", str(each.name())),
        state=_state(each),
        began_at=began,
        seconds=(ended - began).total_seconds() if began and ended else None,
        tasks=each.numTasks(),
        failed_tasks=each.numFailedTasks(),
        median_seconds=times.apply(0) / 1000 if times is not None else None,
        longest_seconds=times.apply(1) / 1000 if times is not None else None,
        gc_seconds=each.jvmGcTime() / 1000,
        input_records=each.inputRecords(),
        input_bytes=each.inputBytes(),
        shuffle_bytes=each.shuffleReadBytes() + each.shuffleWriteBytes(),
        spilled_bytes=each.diskBytesSpilled(),
        peak_memory_bytes=each.peakExecutionMemory(),
    )


def _state(each: Any) -> str:
    return str(each.status().name()).lower()


def _time(moment: Any) -> datetime | None:
    return datetime.fromtimestamp(moment.get().getTime() / 1000, UTC) if moment.isDefined() else None


def _items(sequence: Any) -> Iterator[Any]:
    """Yields the items of a Scala sequence."""
    items = sequence.iterator()
    while items.hasNext():
        yield items.next()


def _jvm_context(context: SparkContext) -> Any:
    return context._jsc.sc()  # noqa: SLF001 - Python lacks what is asked of it
