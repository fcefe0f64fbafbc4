"""Writes scrapes in Prometheus's format, and serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, StateSetMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from lockstep.core.errors import Refusal
from lockstep.core.health.health import Health

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from threading import Thread
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import Metric

NAN = float("nan")
# The field of a pipeline's document, the metric and its meaning. Names that a run emits to StatsD are the same here.
GAUGES = (
    ("up", "pipeline_up", "1 if ledger, broker and definition told everything about the pipeline"),
    ("lag_records", "lag_records", "Offsets that wait to be committed"),
    ("lag_seconds", "lag_seconds", "Age of what was committed last, where something waits"),
    ("oldest_waiting_seconds", "oldest_waiting_seconds", "Age of the oldest record that waits, 0 if none does"),
    ("behind_after_seconds", "behind_after_seconds", "Age of a waiting record above which the pipeline is behind"),
    ("headroom_records", "headroom_records", "Offsets that retention may delete before it reaches one not committed"),
    ("headroom_seconds", "headroom_seconds", "Seconds until retention may take a record that waits, at least"),
    (
        "complete_through",
        "complete_through_timestamp_seconds",
        "End of the newest hour whose every record is in the table",
    ),
    ("last_commit", "last_commit_timestamp_seconds", "Time of the newest commit"),
    ("jvm_heap_peak_bytes", "jvm_heap_peak_bytes", "Heap that Spark used at most for the newest committed batch"),
    ("jvm_heap_limit_bytes", "jvm_heap_limit_bytes", "Heap that it could have used"),
    ("jvm_gc_seconds", "jvm_gc_seconds", "Seconds of garbage collection in its JVMs, for that batch"),
    ("unfinished", "unfinished_batches", "Batches that are planned and not committed"),
    ("interrupted", "interrupted_batches", "Unfinished batches that nobody works on"),
    ("holes", "holes", "Stretches below the position that no batch covers"),
)

# The metric of each target with windows, its field and its meaning.
WINDOW_GAUGES = (
    ("lockstep_open_windows", "open", "Windows and keys that the watermark has not passed"),
    ("lockstep_due_windows", "due", "Windows and keys that the watermark has passed, and that are not shown yet"),
    ("lockstep_late_rows", "late_rows", "Rows that came after their window was closed, and count nowhere"),
)

# The metric of each feed that is sent to a topic, its field and its meaning.
RELAY_GAUGES = (
    ("lockstep_relay_behind", "behind", "Changes that wait to be sent to the topic"),
    ("lockstep_relay_behind_seconds", "behind_seconds", "Age of the oldest change that waits, 0 if none does"),
)

# The metric of each lake table, its field and its meaning.
LAKE_GAUGES = (
    ("lockstep_lake_files", "files", "Files that the newest commit brought into a lake table"),
    ("lockstep_lake_bytes", "bytes", "Their size"),
    ("lockstep_lake_prepare_seconds", "prepare_seconds", "Seconds from its last preparation to its commit"),
    ("lockstep_lake_retries", "retries", "Preparations of it that another writer's move has refused"),
)


class Scrapes(Collector):
    """A collector that takes a new scrape for each request."""

    def __init__(self, scrape: Callable[[], Mapping[str, Any]]) -> None:
        self._scrape = scrape

    def describe(self) -> list[Metric]:
        """Returns nothing, so that registration takes no scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics of one scrape. Values that are not known are NaN."""
        found = self._scrape()
        yield from _of_systems(found)
        pipelines = found["pipelines"]
        for name, metric, meaning in GAUGES:
            family = GaugeMetricFamily(f"lockstep_{metric}", meaning, labels=["pipeline"])
            for each in pipelines:
                safe = name == "headroom_seconds" and each["lag_records"] == 0  # retention takes nothing that waits
                family.add_metric([each["pipeline"]], float("inf") if safe else _number(each[name]))
            yield family
        yield _of_engines(pipelines)
        yield from _of_feeds(pipelines)
        yield from _of_windows(pipelines)
        yield from _of_lake(pipelines)
        failed = GaugeMetricFamily("lockstep_pipeline_error", "Class of the error", labels=["pipeline", "error"])
        health = StateSetMetricFamily("lockstep_health", "The worst condition that holds", labels=["pipeline"])
        conditions = StateSetMetricFamily("lockstep_condition", "Every condition that holds", labels=["pipeline"])
        for each in pipelines:
            label, holding = [each["pipeline"]], {condition["state"] for condition in each["conditions"]}
            if each["error"]:
                failed.add_metric([*label, each["error"]], 1)
            health.add_metric(label, {state.value: state == each["health"] for state in Health})
            conditions.add_metric(label, {s.value: s in holding for s in Health if s is not Health.WELL})
        yield from (failed, health, conditions)


def exposition(scrape: Callable[[], Mapping[str, Any]], accept: str = "") -> tuple[bytes, str]:
    """Returns one scrape in the format that the header Accept asks for, with its content type."""
    encode, content_type = choose_encoder(accept)
    return encode(_registry(scrape)), content_type


def serve(scrape: Callable[[], Mapping[str, Any]], host: str, port: int) -> tuple[WSGIServer, Thread]:
    """Serves a new scrape to each request, from threads of its own. Raises `Refusal` if the address is taken."""
    try:
        return start_http_server(port, host, _registry(scrape))
    except OSError as error:
        raise Refusal(
            f"--serve {port} --host {host}: {error.strerror or error}",
            next_command="lockstep metrics --serve 0, which takes a free port of 127.0.0.1",
        ) from None


def _registry(scrape: Callable[[], Mapping[str, Any]]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(Scrapes(scrape))
    return registry


def _of_engines(pipelines: Iterable[Mapping[str, Any]]) -> CounterMetricFamily:
    """Returns the offsets that each engine has read and the pipeline has committed. Has no sample if they are not known."""
    meaning = "Offsets that were committed, by the engine that read them"
    family = CounterMetricFamily("lockstep_offsets", meaning, labels=["pipeline", "engine"])
    for each in pipelines:
        for engine, offsets in (each["offsets"] or {}).items():
            family.add_metric([each["pipeline"], engine], offsets)
    return family


def _of_feeds(pipelines: Iterable[Mapping[str, Any]]) -> Iterator[GaugeMetricFamily]:
    """Yields what each feed keeps, and what waits to be sent of those that are sent to a topic."""
    feeds = [(each["pipeline"], feed) for each in pipelines for feed in each["feeds"] or ()]
    names = ["pipeline", "target"]
    last = GaugeMetricFamily("lockstep_feed_next_number", "Number that the next change of a target gets", labels=names)
    kept = GaugeMetricFamily("lockstep_feed_kept", "Changes that the feed of a target keeps", labels=names)
    for pipeline, feed in feeds:
        last.add_metric([pipeline, feed["target"]], feed["next_number"])
        kept.add_metric([pipeline, feed["target"]], feed["next_number"] - feed["kept_from"])
    yield from (last, kept)
    for name, column, meaning in RELAY_GAUGES:
        waiting = GaugeMetricFamily(name, meaning, labels=names)
        for pipeline, feed in feeds:
            if feed["topic"]:
                waiting.add_metric([pipeline, feed["target"]], feed[column])
        yield waiting


def _of_windows(pipelines: Iterable[Mapping[str, Any]]) -> Iterator[GaugeMetricFamily]:
    """Yields how far event time is behind the clock, and the windows of each target. Nothing of pipelines without any."""
    timed = [each for each in pipelines if each["windows"]]
    lag = GaugeMetricFamily(
        "lockstep_watermark_lag_seconds", "Seconds from the watermark of event time to the clock", labels=["pipeline"]
    )
    for each in timed:
        lag.add_metric([each["pipeline"]], _number(each["watermark_lag_seconds"]))
    yield lag
    for name, column, meaning in WINDOW_GAUGES:
        family = GaugeMetricFamily(name, meaning, labels=["pipeline", "target"])
        for each in timed:
            for windows in each["windows"]:
                family.add_metric([each["pipeline"], windows["target"]], windows[column])
        yield family


def _of_lake(pipelines: Iterable[Mapping[str, Any]]) -> Iterator[GaugeMetricFamily]:
    """Yields what the newest commit did to each lake table."""
    for name, column, meaning in LAKE_GAUGES:
        family = GaugeMetricFamily(name, meaning, labels=["pipeline", "target"])
        for each in pipelines:
            for move in each.get("lake") or ():
                family.add_metric([each["pipeline"], move["target"]], _number(move[column]))
        yield family


def _of_systems(found: Mapping[str, Any]) -> Iterator[Metric]:
    up = GaugeMetricFamily("lockstep_up", "1 if the system answered this scrape", labels=["system"])
    for system, answered in found["up"].items():
        up.add_metric([system], float(answered))
    meaning = "Time of the last error of a system, since this exporter was started"
    errors = GaugeMetricFamily("lockstep_last_error_timestamp_seconds", meaning, labels=["system", "error"])
    for each in found["last_errors"]:
        errors.add_metric([each["system"], each["error"]], each["at"].timestamp())
    took = GaugeMetricFamily("lockstep_scrape_seconds", "Seconds that this scrape took", value=found["seconds"])
    yield from (up, errors, took)


def _number(value: Any) -> float:
    if value is None:
        return NAN
    return float(value.timestamp()) if hasattr(value, "timestamp") else float(value)
