"""A pipeline's folder, loaded: the value and the files beside it, with the hash that names this state of the code."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.violations import may_quarantine

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lockstep.core.definition import Pipeline


BESIDE = ("transform", "expectations", "decode")  # of a definition's document: files beside the Pipeline's own values


@dataclass(frozen=True, slots=True)
class PipelineFolder:
    """One pipeline with its transform's source (None: the decoded columns go through), its suite and its DDL.

    `decode` is the source of the decoder of its own that a `Custom` format names.
    """

    pipeline: Pipeline
    path: Path
    transform: str | None
    expectations: dict[str, Any] | None
    target_sql: str | None
    decode: str | None = None

    @property
    def quarantines(self) -> bool:
        """Whether an expectation may put records aside, so that the bytes of all of them are kept until it has looked."""
        return may_quarantine(self.pipeline.on_violation, self.expectations)

    @property
    def is_straight(self) -> bool:
        """Whether the decoded columns go through to the one target, so that whoever reads can stage in one pass."""
        targets = self.pipeline.targets
        return self.transform is None and len(targets) == 1 and targets[0].transform is None

    def document(self) -> dict[str, Any]:
        """The whole definition as JSON: what the ledger keeps for every attempt that ran with it."""
        beside = {"transform": self.transform, "expectations": self.expectations}
        return self.pipeline.document() | beside | ({"decode": self.decode} if self.decode is not None else {})

    def content_hash(self) -> str:
        """The name of this definition: equal folders have equal hashes."""
        return hashlib.sha256(json.dumps(self.document(), sort_keys=True).encode()).hexdigest()[:16]


def changed_parts(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names of the parts in which two documents differ, as JSON sees them."""
    first, second = (json.loads(json.dumps(document)) for document in (before, now))
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
