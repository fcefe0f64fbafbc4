"""Parses the offsets of another reader: as typed, of a Kafka Connect sink, of a Structured Streaming checkpoint."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import Refusal, quoted
from lockstep.core.planning.bounds import MOST_OFFSET

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_PARTITION = 2**31 - 1
LOG_VERSION = "v1"
NO_OFFSETS = "-"  # of a source that has not been asked yet
_PAIR = re.compile(r"^\s*(\d{1,19}):(\d{1,19})\s*\Z", re.ASCII)
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
    """The next offset of a reader in each partition of one topic. Leaves out partitions without one."""

    reader: Reader
    offsets: Mapping[int, int] = field(default_factory=dict)


AT_OFFSETS = Standing(Reader("offsets", None, "", "--at"))
IN_DEFINITION = Standing(Reader("offsets", None, "", "start"))


def parse_offsets(text: str) -> dict[int, int]:
    """Parses `0:123,1:456`. Raises `ValueError` for any other text, and for a partition that is named twice."""
    found: dict[int, int] = {}
    for pair in text.split(","):
        match = _PAIR.match(pair)
        if not match or int(match[1]) > MOST_PARTITION or int(match[2]) > MOST_OFFSET:
            raise ValueError(f"{quoted(pair)} is not PARTITION:OFFSET, such as 0:1200")
        partition, offset = int(match[1]), int(match[2])
        if partition in found:
            raise ValueError(f"partition {partition} is named twice, with {found[partition]} and {offset}")
        found[partition] = offset
    return found


def offsets_text(offsets: Mapping[int, int]) -> str:
    """Returns offsets as `--at` takes them."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))


def group_of_connector(text: str, file: str, pipeline: str, topic: str) -> tuple[str, str]:
    """Returns name and consumer group of the sink connector in a JSON document.

    Takes what Connect's REST interface takes and gives: the configuration alone, or within `config`. Raises `Refusal` for
    anything but a sink of this one topic.
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
        raise Refusal(
            f"{file}: it reads the topics that match {quoted(matching)}, and a pipeline has one topic",
            next_command=named,
        )
    topics = [each.strip() for each in known.get("topics", "").split(",") if each.strip()]
    if not topics:
        raise Refusal(f"{file}: it names no topics, so it is no sink", next_command=by_group)
    if topic not in topics:
        raise _another_topic(file, topics, pipeline, topic)
    if len(topics) > 1:
        raise Refusal(
            f"{file}: it reads {', '.join(topics)}, and a pipeline has one topic: name its group for {topic} alone",
            next_command=named,
        )
    return name or group, group


def batches_in(names: list[str]) -> list[int]:
    """Returns the batches that a checkpoint's folder has a file of. Leaves out checksums and what is half written."""
    return sorted(int(name) for name in names if _ENTRY.match(name))


def offsets_of_batch(text: str, file: str, pipeline: str, topic: str) -> dict[int, int]:
    """Returns the ends of a batch of Structured Streaming, from its file in the folder `offsets`.

    Raises `Refusal` unless the query reads this one topic, and nothing else.
    """
    at = f"lockstep adopt {pipeline} --at 0:OFFSET,1:OFFSET"
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
        raise Refusal(f"{file}: its query reads {len(sources)} sources, and a pipeline has one topic", next_command=at)
    (by_topic,) = sources
    if not isinstance(by_topic, dict) or not all(isinstance(each, dict) for each in by_topic.values()):
        raise Refusal(f"{file}: its query does not read Kafka", next_command=at)
    if topic not in by_topic:
        raise _another_topic(file, sorted(by_topic), pipeline, topic)
    if len(by_topic) > 1:
        topics = ", ".join(sorted(by_topic))
        raise Refusal(f"{file}: its query reads {topics}, and a pipeline has one topic", next_command=at)
    offsets = by_topic[topic]
    if not all(_ENTRY.match(p) and type(o) is int and 0 <= o <= MOST_OFFSET for p, o in offsets.items()):
        raise Refusal(f"{file}: it is broken: its partitions and offsets are no numbers", next_command=at)
    return {int(partition): offset for partition, offset in offsets.items()}


def last_committed(offsets: list[int], commits: list[int], folder: str, pipeline: str) -> tuple[int, int | None]:
    """Returns the last batch that a query has committed, and the batch behind it that it has planned, or None.

    Raises `Refusal` for a folder that is no whole checkpoint.
    """
    at = f"lockstep adopt {pipeline} --at 0:OFFSET,1:OFFSET"
    if not offsets and not commits:
        raise Refusal(f"{folder}: it holds no batch of Structured Streaming", next_command=at)
    if not commits:
        raise Refusal(f"{folder}: its query has planned batch {offsets[-1]} and committed none", next_command=at)
    if commits[-1] not in offsets:
        raise Refusal(
            f"{folder}: it is broken: batch {commits[-1]} is committed, and its offsets are missing", next_command=at
        )
    return commits[-1], offsets[-1] if offsets[-1] > commits[-1] else None


def _another_topic(file: str, topics: list[str], pipeline: str, topic: str) -> Refusal:
    return Refusal(
        f"{file}: it reads {', '.join(topics)}, and {pipeline} reads {topic}",
        next_command=f"lockstep new ANOTHER_NAME --topic {topics[0]}",
    )
