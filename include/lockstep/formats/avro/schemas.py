"""Fetches writer schemas by id from the registry, once per worker process. The meaning of an id never changes."""

from __future__ import annotations

import json
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry.error import SchemaRegistryError

from lockstep.core.errors import BadDefinition, Unreachable
from lockstep.core.feed.avro import first_difference
from lockstep.formats.avro.client import (
    MOST_ANSWER,
    AnswerTooLargeError,
    AnswerTooLateError,
    in_time,
    longest,
    registry_client,
)
from lockstep.formats.avro.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockstep.core.registry import Registry

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"  # as the registry writes a schema's type
SERIALIZED = {PROTOBUF: "serialized"}  # the form that is asked for
NOT_FOUND = {(404, 40401), (404, 40402), (404, 40403)}  # subject, version, schema. Another server's 404 has no code.

INCOMPATIBLE = 409
MOST_REFERENCES = 100  # that one schema may lead to


class IncompatibleSchema(ValueError):  # noqa: N818 - it is an answer, not a fault
    """The registry's answer that a subject's earlier schemas do not allow this one."""


class UnknownSchema(LookupError):  # noqa: N818 - it is an answer, not a fault
    """The registry's answer that it has no such schema. `str()` is the reason of a reject."""


@cache
def schemas(registry: Registry, kind: str = AVRO) -> Schemas:
    """Returns this process's one client of a registry for schemas of a kind."""
    return Schemas(registry, kind)


class Schemas:
    """The schemas by id, as text with the texts of their references."""

    def __init__(self, registry: Registry, kind: str = AVRO) -> None:
        self._registry = registry
        self._kind = kind
        self._client = registry_client(registry)
        self._known: Recent[tuple[str, dict[str, str]]] = Recent()
        self._subjects: Recent[frozenset[str]] = Recent()

    def writer(self, schema_id: int) -> tuple[str, dict[str, str]]:
        """Returns the schema of an id, and the named schemas it refers to, in the order of their use.

        Those of Protobuf are serialized descriptors in base64, or `.proto` text from a registry that has nothing else.
        Raises `UnknownSchema`, or `Unreachable` if the registry does not answer or denies access.
        """
        if schema_id not in self._known:
            ask = partial(self._client.get_schema, schema_id, fmt=SERIALIZED.get(self._kind))
            found = self._asked(ask, f"schema id {schema_id}")
            if (found.schema_type or AVRO) != self._kind:
                raise UnknownSchema(
                    f"schema id {schema_id} is {found.schema_type or AVRO}, not {self._kind.capitalize()}"
                )
            named: dict[str, str] = {}
            self._add_references(found.references or (), named, f"schema id {schema_id}", set())
            self._known.put(schema_id, (found.schema_str, named), schema_size(found.schema_str, named))
            self._client.clear_caches()  # the client would keep each of them for good
        return self._known[schema_id]

    def latest(self, subject: str) -> tuple[int, str, dict[str, str]]:
        """Returns id, schema and references of a subject's newest schema. Raises as `writer` does."""
        found = self._newest(subject)
        return int(found.schema_id), *self.writer(int(found.schema_id))

    def subjects(self) -> list[str]:
        """Returns the subjects that this login may see. Raises `Unreachable` without an answer."""
        return sorted(self._asked(self._client.get_subjects, "subjects"))

    def require_answer(self) -> None:
        """Raises `Unreachable` unless the registry lists subjects to this login."""
        self._asked(lambda: self._client.get_subjects(limit=1), "subjects")

    def has(self, subject: str) -> bool:
        """Returns True if the subject has a schema."""
        try:
            self._newest(subject)
        except UnknownSchema:
            return False
        return True

    def register(self, subject: str, schema: Mapping[str, Any]) -> int:
        """Registers a schema under a subject, and returns its id. Registers nothing twice.

        Raises `BadDefinition`, with the column, if the subject's earlier schemas are not compatible with it.
        """
        wanted = Schema(json.dumps(schema), "AVRO")
        try:
            return int(self._asked(lambda: self._client.register_schema(subject, wanted), f"subject {subject}"))
        except IncompatibleSchema as refused:
            latest = self._newest(subject)
            which = first_difference(json.loads(latest.schema.schema_str), schema) or str(refused)
            raise BadDefinition(
                f"subject {subject}: {which}, and its compatibility does not allow that",
                next_command="put the column back, or let the topic have another subject",
            ) from None

    def id_of(self, subject: str, schema: Mapping[str, Any]) -> int | None:
        """Returns the id of a schema under a subject, or None if it is not registered there."""
        wanted = Schema(json.dumps(schema), "AVRO")
        try:
            return int(self._asked(lambda: self._client.lookup_schema(subject, wanted), f"subject {subject}").schema_id)
        except UnknownSchema:
            return None

    def require_subject(self, schema_id: int, subject: str) -> None:
        """Raises `UnknownSchema` unless the schema was registered under the subject."""
        known = self._subjects[schema_id] if schema_id in self._subjects else frozenset[str]()
        if subject not in known:
            versions = self._asked(lambda: self._client.get_schema_versions(schema_id), f"schema id {schema_id}")
            known = self._subjects[schema_id] = frozenset(version.subject for version in versions)
        if subject not in known:
            raise UnknownSchema(f"schema id {schema_id} is not one of subject {subject}")

    def _newest(self, subject: str) -> Any:
        """Returns a subject's newest version as it is now. The client would remember that of a minute ago."""
        self._client.clear_latest_caches()
        return self._asked(lambda: self._client.get_latest_version(subject), f"subject {subject}")

    def _add_references(self, references: Any, named: dict[str, str], whose: str, seen: set[str]) -> None:
        """Adds the referenced schemas before those that refer to them.

        Asks only once for schemas that refer to each other.
        """
        for each in references:
            if each.name not in seen:
                seen.add(each.name)
                if len(seen) > MOST_REFERENCES:
                    raise UnknownSchema(f"{whose} refers to more than {MOST_REFERENCES} schemas")
                ask = partial(self._client.get_version, each.subject, each.version, fmt=SERIALIZED.get(self._kind))
                found = self._asked(ask, f"what {whose} refers to")
                self._add_references(found.schema.references or (), named, whose, seen)
                named[each.name] = found.schema.schema_str

    def _asked(self, ask: Callable[[], Any], what: str) -> Any:
        seconds = longest(self._registry)
        try:
            return in_time(ask, seconds)
        except SchemaRegistryError as error:
            if (error.http_status_code, error.error_code) in NOT_FOUND:
                raise UnknownSchema(f"{what} is not in the registry") from None
            if error.http_status_code == INCOMPATIBLE:
                raise IncompatibleSchema(f"the schema is not compatible with {what}") from None
            why = f"HTTP {error.http_status_code}, code {error.error_code}"
        except AnswerTooLargeError:
            why = f"the answer is larger than {MOST_ANSWER // 2**20} MB, or compressed in another way than gzip"
        except AnswerTooLateError:
            self._client = registry_client(self._registry)  # the other one's connection is still being read
            why = f"no whole answer within {seconds:.0f} seconds"
        except Exception as error:  # noqa: BLE001 - whatever lies between us and a registry, no record is at fault
            why = type(error).__name__
        raise Unreachable(
            f"schema registry {self._registry.shown} does not answer for {what}: {why}",
            next_command="look at LOCKSTEP_REGISTRY and LOCKSTEP_REGISTRY_CONFIG",
        ) from None


def schema_size(text: Any, named: Mapping[str, Any]) -> int:
    """Returns the characters of a schema and its references. A registry may answer with what is no text."""
    return sum(len(each) for each in (text, *named.values()) if isinstance(each, str))


def require_client(registry: Registry) -> None:
    """Raises `BadDefinition` if the options make no client. Sends no request to the registry."""
    registry_client(registry)
