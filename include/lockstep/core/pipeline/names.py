"""Refuses names that no pipeline, table, column or function can have, and topics that none can read.

A pipeline's name is a folder, a Python module and two DAG ids at once.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadDefinition, Refusal, quoted
from lockstep.core.ledger_rights import LEDGER_SCHEMAS
from lockstep.core.offsets import is_topic_name
from lockstep.core.pipeline.columns import IDENTIFIER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SUFFIX = "_history"  # of a history's DAG, behind the pipeline's name
UPKEEP_SUFFIX = "-upkeep"  # of the DAG that keeps its lake tables. No pipeline has a hyphen in its name
MOST_NAME_LENGTH = 63
NAME_SUFFIX = "_records"  # what a word of Python is given to become a name
INTERNAL_TOPIC = "__"  # how a broker's own topics begin
MOST_TOPICS = 10_000
READ_NEW, REFUSE_NEW = "earliest", "refuse"
_OTHERS = re.compile(r"[^a-z0-9]+")
_ENDINGS = re.compile(rf"({SUFFIX}|_)+\Z")


@dataclass(frozen=True, slots=True)
class Topics:
    """Every topic whose whole name matches a regular expression. A broker's own topics, `__...`, never match.

    A topic that appears later is read from offset 0. With `new="refuse"` the pipeline stops instead, and names it.
    More topics than `limit` are refused.
    """

    pattern: str
    new: str = READ_NEW
    limit: int = 500

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except (re.error, TypeError) as error:
            raise BadDefinition(f"topic: {self.pattern!r} is no regular expression: {error}") from None
        if self.new not in {READ_NEW, REFUSE_NEW}:
            raise BadDefinition(f"topic.new is {self.new!r}: it must be {READ_NEW} or {REFUSE_NEW}")
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or not 1 <= self.limit <= MOST_TOPICS:
            raise BadDefinition(f"topic.limit is {self.limit!r}: it must be a number from 1 to {MOST_TOPICS}")

    def matches(self, topic: str) -> bool:
        """Returns True for a topic of this name. A broker's own topic never matches."""
        return not topic.startswith(INTERNAL_TOPIC) and re.fullmatch(self.pattern, topic) is not None


TopicSource = str | tuple[str, ...] | Topics


class OfTopics:
    """Names the topics of a pipeline, for its definition."""

    __slots__ = ()
    name: str
    topic: TopicSource

    @property
    def only_topic(self) -> str:
        """Returns the pipeline's topic. Raises `Refusal` for a pipeline of several, where one is not enough."""
        if isinstance(self.topic, str):
            return self.topic
        raise Refusal(
            f"{self.name}: it reads {topic_words(self.topic)}, and this takes a pipeline of one topic",
            next_command=f"lockstep status {self.name}",
        )

    def one_topic(self, given: str | None) -> str:
        """Returns the topic that is named, or the only one. Raises `Refusal` if there are several and none is named."""
        if given is not None or isinstance(self.topic, str):
            return given or self.only_topic
        raise Refusal(
            f"{self.name}: it reads {topic_words(self.topic)}, and a partition is one of a topic",
            next_command="name it: --topic",
        )

    def topic_option(self, topic: str) -> str:
        """Returns the option that names a topic on the command line, or nothing for a pipeline of one topic."""
        return "" if isinstance(self.topic, str) else f" --topic {topic}"


def refuse_bad_topic(source: object, start: object) -> None:
    """Refuses what names no topic that Kafka takes, and offsets by partition for several topics."""
    if isinstance(start, Mapping) and not isinstance(source, str):
        raise BadDefinition("start: offsets by partition are those of one topic, and topic names several")
    if isinstance(source, Topics):
        return
    if not isinstance(source, str | tuple):
        raise BadDefinition(f"topic is {source!r}: not a kind that Lockstep knows")
    for name in (source,) if isinstance(source, str) else source:
        if not is_topic_name(name):
            raise BadDefinition(f"topic {name!r} is no legal topic name")
    if isinstance(source, tuple) and len(set(source)) < max(1, len(source)):
        raise BadDefinition(f"topic is {source!r}: it must name each topic once, and one at least")


def reads_topic(source: TopicSource, topic: str) -> bool:
    """Returns True if a definition with this `topic` reads the topic of this name."""
    if isinstance(source, Topics):
        return source.matches(topic)
    return topic == source if isinstance(source, str) else topic in source


def chosen_topics(source: TopicSource, there: Callable[[], Iterable[str]]) -> list[str]:
    """Returns the names that a definition with this `topic` reads. Asks which topics are there for a pattern alone."""
    if isinstance(source, Topics):
        return [name for name in there() if source.matches(name)]
    return [source] if isinstance(source, str) else sorted(source)


def source_of(part: Any) -> TopicSource:
    """Returns the topics of a definition's document."""
    if isinstance(part, Mapping):
        return Topics(**part)
    return part if isinstance(part, str) else tuple(part)


def has_appeared(topic: str, bound_by: Iterable[Mapping[str, Any]]) -> bool:
    """Returns True if the earlier definitions read a topic already. Then it is the topic that is new."""
    return all(reads_topic(source_of(document["topic"]), topic) for document in bound_by)


def topic_tags(source: TopicSource) -> tuple[str, ...]:
    """Returns the names that a definition says. A pattern says none."""
    return () if isinstance(source, Topics) else (source,) if isinstance(source, str) else source


def topics_named(source: TopicSource) -> str:
    """Returns the topics with their noun, such as `topic orders.v1` or `topics orders.eu, orders.us`."""
    if isinstance(source, Topics):
        return topic_words(source)
    return f"{'topics' if isinstance(source, tuple) else 'topic'} {topic_words(source)}"


def topic_words(source: TopicSource) -> str:
    """Returns the topics in words, such as `orders.eu, orders.us`."""
    if isinstance(source, Topics):
        return f"topics like {source.pattern}"
    return source if isinstance(source, str) else ", ".join(source)


def pipeline_of_dag(dag_id: str) -> str:
    """Returns the pipeline of a DAG: the live DAG has its name, others its name and `_history` or `-upkeep`."""
    return dag_id.removesuffix(SUFFIX).removesuffix(UPKEEP_SUFFIX)


def group_of(pipeline: str) -> str:
    """Returns the consumer group by which a pipeline shows its positions."""
    return f"lockstep-{pipeline}"


def refuse_bad_name(name: str) -> None:
    """Refuses a name that is no identifier, a name of Python's, or the DAG id of another pipeline's history."""
    if not IDENTIFIER.match(name):
        raise _bad(name, f"lower case letters, digits and _, no digit first, {MOST_NAME_LENGTH} at most")
    if keyword.iskeyword(name):
        raise _bad(name, "a word of Python, which no module can have as its name")
    if name.startswith("__"):
        raise _bad(name, "names that begin with __ are Python's own")
    if name.endswith(SUFFIX):
        raise _bad(name, f"{SUFFIX} is the ending of a history's DAG, here of {name.removesuffix(SUFFIX)!r}")


def good_name(name: str) -> str:
    """Returns a similar name that a pipeline can have."""
    plain = unicodedata.normalize("NFKD", name[:MOST_NAME_LENGTH]).encode("ascii", "ignore").decode().lower()
    good = _OTHERS.sub("_", plain).strip("_")
    good = good if good[:1].isalpha() else f"p_{good}"
    good = _ENDINGS.sub("", good[: MOST_NAME_LENGTH - len(NAME_SUFFIX)])
    return f"{good}{NAME_SUFFIX}" if keyword.iskeyword(good) or good == "p" else good


def refuse_bad_key(key: tuple[str, ...], *others: str) -> None:
    """Refuses key columns, and others beside them, that are no names of columns, or stand there twice."""
    if key == ():
        raise BadDefinition("target.key is empty: name at least one column")
    if not isinstance(key, tuple):
        raise BadDefinition("target.key must be a tuple of column names, such as ('order_id',)")
    for name in (*key, *others):
        if not isinstance(name, str) or not IDENTIFIER.match(name):
            raise BadDefinition(f"target: {name!r} is not a column name")
        if key.count(name) > 1:
            raise BadDefinition(f"target.key: {name!r} is there twice")


def refuse_sharing_names(names: tuple[str, ...]) -> None:
    """Refuses other pipelines of a shared table that are no names of pipelines."""
    if not isinstance(names, tuple):
        raise BadDefinition("target.shared_with must be a tuple of pipeline names, such as ('orders_eu',)")
    for name in names:
        if not isinstance(name, str) or not IDENTIFIER.match(name):
            raise BadDefinition(f"target.shared_with: {name!r} is not the name of a pipeline")
        if names.count(name) > 1:
            raise BadDefinition(f"target.shared_with: {name!r} is there twice")


def refuse_bad_transform(name: str | None) -> None:
    """Refuses the name of a transform that is no name of a function."""
    if name is not None and not (isinstance(name, str) and name.isidentifier()):
        raise BadDefinition(f"target.transform {name!r}: it must be the name of a function in transform.py")


def refuse_bad_table(table: str) -> None:
    """Refuses a table that is not `schema.table`, or lies in a schema of the ledger."""
    if not isinstance(table, str):
        raise BadDefinition(f"target.table is {table!r}: it must be schema.table, in lower case")
    if type(table) is not str:
        raise BadDefinition(
            f"target.table is {table!r}: of all targets, only Append and Upsert keep their rows in the lake"
        )
    schema, dot, name = table.partition(".")
    if not dot or not IDENTIFIER.match(schema) or not IDENTIFIER.match(name):
        raise BadDefinition(f"target.table {table!r}: it must be schema.table, in lower case")
    if schema in LEDGER_SCHEMAS:
        raise BadDefinition(f"target.table {table!r}: the schema {schema} is the ledger's own")


def _bad(name: str, why: str) -> BadDefinition:
    return BadDefinition(f"name {quoted(name)}: {why}", next_command=f"lockstep new {good_name(name)} --topic TOPIC")
