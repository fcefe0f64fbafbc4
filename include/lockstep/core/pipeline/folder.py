"""Holds a pipeline's folder once loaded: the pipeline, the files beside it, and the hash of this state."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.core.lake.iceberg import lake_places
from lockstep.core.pipeline.targets import Append, Upsert
from lockstep.core.pipeline.violations import may_quarantine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.core.pipeline.definition import Pipeline


BESIDE = ("transform", "expectations", "decode")  # of a definition's document: files beside the Pipeline's own values
SHORT_HASH = 16  # letters of a definition's hash before migration 0089
TRANSFORM = Path("transform.py")


@dataclass(frozen=True, slots=True)
class PipelineFolder:
    """One pipeline with its transform's source, its suite and its DDL.

    `transform` is None if the decoded columns go through. `decode` is the source of the decoder that a `Custom` format
    names. `transform_file` is where the transform's source lies: below `path`, or as a canary names it.
    """

    pipeline: Pipeline
    path: Path
    transform: str | None
    expectations: dict[str, Any] | None
    target_sql: str | None
    decode: str | None = None
    transform_file: Path = TRANSFORM

    @property
    def quarantines(self) -> bool:
        """Returns True if an expectation may quarantine records, or an event at no time of a window.

        The bytes of all records are then kept until the batch is judged. With several targets, such an event refuses it.
        """
        may_be_odd = bool(self.pipeline.windows) and len(self.pipeline.targets) == 1
        return may_be_odd or may_quarantine(self.pipeline.on_violation, self.expectations)

    @property
    def is_straight(self) -> bool:
        """Returns True if the decoded columns go through to one target."""
        targets = self.pipeline.targets
        return self.transform is None and len(targets) == 1 and targets[0].transform is None

    @property
    def fans_out(self) -> bool:
        """Returns True if each record gives one row to each of several tables, some of them in the lake."""
        targets = self.pipeline.targets
        may_give_none = self.transforms or self.pipeline.takes_tombstones
        is_of_records = all(type(target) in {Append, Upsert} for target in targets)  # and no kind of them
        return len(targets) > 1 and is_of_records and not may_give_none and bool(lake_places(targets))

    @property
    def decodes_to_rows(self) -> bool:
        """Returns True if a record's decoded columns are its row in each target. The reader can then stage in one pass."""
        return self.is_straight or self.fans_out

    @property
    def transforms(self) -> bool:
        """Returns True if a transform decides which columns reach a target."""
        return self.transform is not None or any(target.transform for target in self.pipeline.targets)

    def document(self) -> dict[str, Any]:
        """Returns the whole definition as JSON. The ledger keeps it for every attempt that ran with it."""
        beside = {"transform": self.transform, "expectations": self.expectations}
        return self.pipeline.document() | beside | ({"decode": self.decode} if self.decode is not None else {})

    def content_hash(self) -> str:
        """Returns the name of this definition. Equal folders have equal hashes."""
        return hash_of(self.document())


def hash_of(document: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of a definition's document, in hexadecimal."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def is_hash_of(known: str, document: Mapping[str, Any]) -> bool:
    """Returns True if a recorded hash is the document's. Ledgers from before migration 0089 have its first 16 letters."""
    found = hash_of(document)
    return known in {found, found[:SHORT_HASH]}


def changed_parts(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns the names of the parts in which two documents differ, as JSON sees them."""
    first, second = (json.loads(json.dumps(document)) for document in (before, now))
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
