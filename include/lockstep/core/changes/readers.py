"""Parses the offsets of another reader: as typed, of a Kafka Connect sink, of a Structured Streaming checkpoint."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import Refusal, quoted
from lockstep.core.offsets import TopicPartition
from lockstep.core.pipeline.names import Topics, reads_topic, topic_words
from lockstep.core.planning.bounds import MOST_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lockstep.core.pipeline.names import TopicSource

MOST_PARTITION = 2**31 - 1
LOG_VERSION = "v1"
EXAMPLE = "0:OFFSET,1:OFFSET"
NO_OFFSETS = "-"  # of a source that has not been asked yet
_PAIR = re.compile(r"^\s*(?:([A-Za-z0-9._-]{1,249})-)?(\d{1,19}):(\d{1,19})\s*\Z", re.ASCII)
_PLACE = re.compile(r"^\s*(?:([A-Za-z0-9._-]{1,249})-)?(\d{1,10})\s*\Z", re.ASCII)
_ENTRY = re.compile(r"^\d{1,19}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Reader:
    """The program that has read a topic so far. `words` are its options on the command line, `shown` its name in a message."""

    kind: str
    name: str | None
    words: str
    shown: str
    group: str | None = None
    batch: int | None = None

    @property
    def stands(self) -> str:
        """Returns the reader and its verb, before an offset."""
        return f"{self.shown} {'stands at' if self.words else 'says'}"

    def document(self) -> dict[str, Any]:
        """Describes the reader, for `--json` and the ledger."""
        return {"kind": self.kind, "name": self.name, "group": self.group, "batch": self.batch}


@dataclass(frozen=True, slots=True)
class Standing:
    """The next offset of a reader in each partition. Leaves out partitions without one."""

    reader: Reader
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


AT_OFFSETS = Standing(Reader("offsets", None, "", "--at"))
IN_DEFINITION = Standing(Reader("offsets", None, "", "start"))


def parse_offsets(text: str) -> dict[tuple[str, int], int]:
    """Parses `0:123,1:456`, or with topics `orders.eu-0:123,orders.us-0:456`. The topic is empty where none is named.

    Raises `ValueError` for any other text, and for a partition that is named twice.
    """
    found: dict[tuple[str, int], int] = {}
    for pair in text.split(","):
        match = _PAIR.match(pair)
        if not match or int(match[2]) > MOST_PARTITION or int(match[3]) > MOST_OFFSET:
            raise ValueError(f"{quoted(pair)} is not PARTITION:OFFSET, such as 0:1200, or orders.v1-0:1200")
        where, offset = (match[1] or "", int(match[2])), int(match[3])
        if where in found:
            shown = f"{where[0]}-{where[1]}" if where[0] else str(where[1])
            raise ValueError(f"partition {shown} is named twice, with {found[where]} and {offset}")
        found[where] = offset
    return found


def parse_partitions(texts: Iterable[str]) -> list[tuple[str, int]]:
    """Parses partitions such as `0`, or with their topic `orders.eu-0`. Raises `ValueError` for any other text."""
    found = [_PLACE.match(text) for text in texts]
    for text, match in zip(texts, found, strict=True):
        if not match or int(match[2]) > MOST_PARTITION:
            raise ValueError(f"{quoted(text)} is no partition, such as 0, or orders.v1-0")
    return [(match[1] or "", int(match[2])) for match in found if match]


def offsets_text(offsets: Mapping[TopicPartition, int], *, named: bool) -> str:
    """Returns offsets as `--at` takes them, `named` with their topics."""
    return ",".join(f"{at if named else at.partition}:{offset}" for at, offset in sorted(offsets.items()))


def group_of_connector(text: str, file: str, pipeline: str, source: TopicSource) -> tuple[str, str]:
    """Returns name and consumer group of the sink connector in a JSON document.

    Takes what Connect's REST interface takes and gives: the configuration alone, or within `config`. Raises `Refusal` for
    anything but a sink of the pipeline's own topics.
    """
    by_group = f"lockstep adopt {pipeline} --group GROUP"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise Refusal(f"{file}: it is no JSON document", next_command=by_group) from None
    config = document.get("config", document) if isinstance(document, dict) else None
    if not isinstance(config, dict):
        raise Refusal(f"{file}: it is no connector's configuration", next_command=by_group)
    known = {key: str(value).strip() for key, value in {**document, **config}.items() if value is not None}
    name, group = known.get("name", ""), known.get("consumer.override.group.id", "")
    group = group or (name and f"connect-{name}")
    if not group:
        raise Refusal(f"{file}: it has no name, which its consumer group is called by", next_command=by_group)
    if "${" in group:
        raise Refusal(f"{file}: its consumer group is {quoted(group)}, which Connect fills in", next_command=by_group)
    named = f"lockstep adopt {pipeline} --group {shlex.quote(group)}"
    if matching := known.get("topics.regex"):
        if isinstance(source, Topics) and source.pattern == matching:
            return name or group, group
        raise Refusal(
            f"{file}: it reads the topics that match {quoted(matching)}, and {pipeline} reads {topic_words(source)}",
            next_command=named,
        )
    topics = [each.strip() for each in known.get("topics", "").split(",") if each.strip()]
    if not topics:
        raise Refusal(f"{file}: it names no topics, so it is no sink", next_command=by_group)
    _refuse_other_topics(file, topics, pipeline, source, named)
    return name or group, group


def batches_in(names: list[str]) -> list[int]:
    """Returns the batches that a checkpoint's folder has a file of. Leaves out checksums and what is half written."""
    return sorted(int(name) for name in names if _ENTRY.match(name))


def offsets_of_batch(text: str, file: str, pipeline: str, source: TopicSource) -> dict[TopicPartition, int]:
    """Returns the ends of a batch of Structured Streaming, from its file in the folder `offsets`.

    Raises `Refusal` unless the query reads the pipeline's own topics, and nothing else.
    """
    at = f"lockstep adopt {pipeline} --at {EXAMPLE}"
    version, *lines = text.split("\n")
    if version != LOG_VERSION:
        raise Refusal(f"{file}: its format is {quoted(version)}, and {LOG_VERSION} is known", next_command=at)
    try:
        sources = [json.loads(line) for line in lines[1:] if line.strip() not in {"", NO_OFFSETS}]
    except (ValueError, RecursionError):
        raise Refusal(f"{file}: it is broken: a line of it is no JSON", next_command=at) from None
    if not sources:
        raise Refusal(f"{file}: it is broken, or its query has read nothing: it holds no offsets", next_command=at)
    if len(sources) > 1:
        raise Refusal(f"{file}: its query reads {len(sources)} sources, and a pipeline has one", next_command=at)
    (by_topic,) = sources
    if not isinstance(by_topic, dict) or not all(isinstance(each, dict) for each in by_topic.values()):
        raise Refusal(f"{file}: its query does not read Kafka", next_command=at)
    _refuse_other_topics(file, sorted(by_topic), pipeline, source, at)
    entries = [(topic, p, offset) for topic, offsets in by_topic.items() for p, offset in offsets.items()]
    if not all(_ENTRY.match(p) and type(o) is int and 0 <= o <= MOST_OFFSET for _, p, o in entries):
        raise Refusal(f"{file}: it is broken: its partitions and offsets are no numbers", next_command=at)
    return {TopicPartition(topic, int(partition)): offset for topic, partition, offset in entries}


def last_committed(offsets: list[int], commits: list[int], folder: str, pipeline: str) -> tuple[int, int | None]:
    """Returns the last batch that a query has committed, and the batch behind it that it has planned, or None.

    Raises `Refusal` for a folder that is no whole checkpoint.
    """
    at = f"lockstep adopt {pipeline} --at {EXAMPLE}"
    if not offsets and not commits:
        raise Refusal(f"{folder}: it holds no batch of Structured Streaming", next_command=at)
    if not commits:
        raise Refusal(f"{folder}: its query has planned batch {offsets[-1]} and committed none", next_command=at)
    if commits[-1] not in offsets:
        raise Refusal(
            f"{folder}: it is broken: batch {commits[-1]} is committed, and its offsets are missing", next_command=at
        )
    return commits[-1], offsets[-1] if offsets[-1] > commits[-1] else None


def _refuse_other_topics(file: str, topics: list[str], pipeline: str, source: TopicSource, named: str) -> None:
    """Refuses a reader of a topic that the pipeline does not read. `named` is the next command if it reads others."""
    others = [topic for topic in topics if not reads_topic(source, topic)]
    if len(others) == len(topics):
        raise Refusal(
            f"{file}: it reads {', '.join(topics)}, and {pipeline} reads {topic_words(source)}",
            next_command=f"lockstep new ANOTHER_NAME --topic {topics[0]}",
        )
    if others:
        raise Refusal(
            f"{file}: it reads {', '.join(others)} too, and {pipeline} reads {topic_words(source)} alone: take over these",
            next_command=named,
        )
