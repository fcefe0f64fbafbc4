"""Takes the head with a schema's id off JSON records, and asks the registry for that schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.core.formats.registered import HEAD_BYTES
from lockstep.formats.avro.schemas import JSON, UnknownSchema, schemas
from lockstep.formats.json.judge import JsonJudge
from lockstep.formats.registered import WritersById, is_wire_format
from lockstep.formats.rows import RecordOutcome

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.formats import Json
    from lockstep.core.registry import Registry
    from lockstep.formats.avro.schemas import Schemas
    from lockstep.formats.json.columns import Decoded, JsonColumns
    from lockstep.formats.json.contracts import JsonContract
    from lockstep.formats.judges import Judge

BODY, PLAIN_KEY = "body", "key"  # of what a judged head leaves


class JsonWriters(WritersById["JsonContract | None"]):
    """The contracts of one task's records, by schema id. Without `validates`, each id need only be known."""

    def __init__(self, known: Schemas, pipeline: Pipeline, *, validates: bool) -> None:
        super().__init__(known, pipeline.record_limits)
        self._validates = validates

    def parse(self, schema_id: int) -> JsonContract | None:
        """Returns the contract of a schema id. Raises `UnknownSchema` if the registry has no JSON Schema of that id."""
        text, references = self._schemas.writer(schema_id)
        if not self._validates:
            return None
        from lockstep.formats.json.contracts import contract  # noqa: PLC0415 - executors need its packages for this alone

        return contract(schema_id, text, references, self._limits)


class HeadJudge:
    """The judge of one task's heads. Its outcome has the JSON behind a head, or a tombstone's key as plain text."""

    def __init__(self, pipeline: Pipeline, format_: Json, known: Schemas) -> None:
        self._subject = format_.subject
        key = format_.key if pipeline.takes_tombstones else None
        self._key = next((column for column in format_.columns if column.name == key), None)
        self._writers = JsonWriters(known, pipeline, validates=format_.validate)

    def __call__(self, key: bytes | None, value: bytes | None, _headers: str | None) -> RecordOutcome:
        """Returns the parts of a record, or the reason why it is a reject."""
        try:
            if value is None:
                return RecordOutcome({PLAIN_KEY: self._plain(key)})
            contract = self._writers.of_record(value, self._subject)
            body = value[HEAD_BYTES:]
            if contract is not None:
                contract.require(body)
            return RecordOutcome({BODY: body})
        except ValueError as error:
            return RecordOutcome(reason=str(error), deleted=value is None)

    def _plain(self, key: bytes | None) -> bytes | None:
        """Returns a key without its head: the text of a value, or of the field that the key column names."""
        if self._key is None or key is None or not is_wire_format(key):
            return key
        schema_id = int.from_bytes(key[1:HEAD_BYTES], "big")
        try:
            self._writers.of_id(schema_id)
        except UnknownSchema:
            return key
        no_key = f"tombstone: its key is not a {self._key.type}"
        try:
            value = json.loads(key[HEAD_BYTES:].decode(), parse_int=str, parse_float=str)
        except (ValueError, RecursionError):
            raise ValueError(no_key) from None
        if isinstance(value, dict):
            if self._key.name not in value:
                raise ValueError(f"tombstone: its key, schema id {schema_id}, has no field {self._key.name}")
            value = value[self._key.name]
        if not isinstance(value, str | bool):
            raise ValueError(no_key)  # noqa: TRY004 - a reason
        try:
            return (value if isinstance(value, str) else json.dumps(value)).encode()
        except UnicodeEncodeError:
            raise ValueError(no_key) from None


class HeadedColumns:
    """The decoder by columns of the JSON behind the heads of one task's records. It leaves those with a bad head."""

    def __init__(self, pipeline: Pipeline, format_: Json, registry: Registry, columns: JsonColumns) -> None:
        self._head = HeadJudge(pipeline, format_, schemas(registry, JSON))
        self._columns = columns

    def __call__(self, values: pa.Array) -> Decoded:
        """Decodes those of the `binary` values that are surely rows. The other values are left."""
        bodies = [value and self._head(None, value, None).values.get(BODY) for value in values.to_pylist()]
        return self._columns(pa.array(bodies, pa.binary()))


def headed(pipeline: Pipeline, format_: Json, registry: Registry) -> Judge:
    """Returns the judge of records: first the head, then the JSON behind it."""
    head, judge = HeadJudge(pipeline, format_, schemas(registry, JSON)), JsonJudge(pipeline, format_)

    def judged(key: bytes | None, value: bytes | None, headers: str | None) -> RecordOutcome:
        parts = head(key, value, headers)
        return parts if parts.reason else judge(parts.values.get(PLAIN_KEY), parts.values.get(BODY), headers)

    return judged
