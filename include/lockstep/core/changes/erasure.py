"""Finds the column of a key to erase, and its bytes elsewhere. Refuses pipelines that cannot erase the key."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.columns import TEXT, WHOLE_TYPES
from lockstep.core.pipeline.formats import key_columns
from lockstep.core.pipeline.guarantees import Delivered
from lockstep.core.pipeline.targets import Append, History, Send, WithTotals

if TYPE_CHECKING:
    from lockstep.core.changes.person import Person
    from lockstep.core.pipeline.definition import Pipeline

UUID = "uuid"


def erasable_column(pipeline: Pipeline, given: str | None) -> str:
    """Returns the column that holds the key: the given one, the targets' key, or the column of the Kafka key.

    Refuses a pipeline whose rows cannot be found by one column. Refuses rows that were sent, or lie in another store.
    """
    name = pipeline.name
    if isinstance(pipeline.guarantee, Delivered) or pipeline.store is not None:
        raise Refusal(
            f"{name}: its results lie in another store, and erase reaches only the ledger's own database; erase them there",
            next_command="set reject_retention in the definition: it empties the rejects that lie here",
        )
    for target in pipeline.targets:
        if isinstance(target.table, Iceberg):
            raise Refusal(
                f"{name}: {target.table} is a table of the lake, and erase does not reach its files and snapshots; "
                "nothing was erased. Once a replay has dropped the key, files of older snapshots go after LOCKSTEP_LAKE_KEEP",
                next_command=f"let the transform drop records of the key, then lockstep replay {name}, then lockstep upkeep "
                f"{name} --lake",
            )
    column = given or _only_column(pipeline)
    if column is None:
        raise Refusal(
            f"{name}: no one column is the key of every target; say which column holds it",
            next_command=f"lockstep erase {name} --key KEY --column COLUMN --reason ...",
        )
    for target in pipeline.targets:
        if isinstance(target, Send):
            raise Refusal(
                f"{name}: its rows are sent to {target.topic.name}, and erase does not reach a topic; nothing was erased",
                next_command=f"let retention or compaction of {target.topic.name} take the records; ours go with lockstep reap",
            )
        if isinstance(target, WithTotals) and column not in target.key:
            raise Refusal(
                f"{name}: {target.table} holds totals by ({', '.join(target.key)}), and what one {column} added to them "
                "cannot be told apart; nothing was erased",
                next_command=f"lockstep erase {name} --key KEY --column {target.key[0]} --reason ...",
            )
        if isinstance(target, History) and column not in target.key:
            raise Refusal(
                f"{name}: {target.table} holds the versions of ({', '.join(target.key)}), and without some of them others "
                f"would end where nothing begins; nothing was erased",
                next_command=f"lockstep erase {name} --key KEY --column {target.key[0]} --reason ...",
            )
    return column


def refuse_told(person: Person, key: str) -> None:
    """Refuses a reason, or a person's name, that holds the key.

    The ledger keeps both, and the chain keeps their digest.
    """
    pattern = re.compile(pattern_of(key))
    for what, text in (("reason", person.why), ("name of who decides", person.who)):
        if pattern.search(text):
            raise Refusal(
                f"the {what} holds the key that is to be erased, and the ledger keeps it; write it without the key"
            )


def needles_of(*keys: str) -> tuple[bytes, ...]:
    """Returns the byte strings by which a reject may hold one of the keys: plain, and as JSON escapes it."""
    forms = [form for key in keys for form in (key, json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1])]
    return tuple(dict.fromkeys(form.encode() for form in forms))


def pattern_of(*keys: str) -> str:
    """Returns a regular expression that finds one of the keys as a word, in Python and Postgres alike."""
    forms = "|".join(re.sub(r"([^\w\s])", r"\\\1", needle.decode()) for needle in needles_of(*keys))
    return rf"(^|\W)({forms})(\W|$)"


def key_kind(type_: str) -> str | None:
    """Returns how keys of a Postgres type are written: `text`, `whole` or `uuid`. Returns None for other types."""
    base = type_.partition("(")[0]
    return "text" if base in TEXT else "whole" if base in WHOLE_TYPES else UUID if base == UUID else None


def _only_column(pipeline: Pipeline) -> str | None:
    keyed = [each.key for each in pipeline.targets if isinstance(each, History) or not isinstance(each, Append)]
    if keyed:
        return keyed[0][0] if len(keyed[0]) == 1 and all(key == keyed[0] for key in keyed) else None
    of_envelope = pipeline.envelope.key_column if pipeline.envelope else None
    named = key_columns(pipeline.format)
    return named[0] if named else (of_envelope.name if of_envelope else None)
