"""A pipeline's folder, loaded: the value and the files beside it, with the hash that names this state of the code."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.violations import may_quarantine

if TYPE_CHECKING:
    from pathlib import Path

    from lockstep.core.definition import Pipeline


@dataclass(frozen=True, slots=True)
class PipelineFolder:
    """One pipeline with its transform's source (None: the decoded columns go through), its suite and its DDL."""

    pipeline: Pipeline
    path: Path
    transform: str | None
    expectations: dict[str, Any] | None
    target_sql: str | None

    @property
    def quarantines(self) -> bool:
        """Whether an expectation may put records aside, so that the bytes of all of them are kept until it has looked."""
        return may_quarantine(self.pipeline.on_violation, self.expectations)

    def document(self) -> dict[str, Any]:
        """The whole definition as JSON: what the ledger keeps for every attempt that ran with it."""
        return self.pipeline.document() | {"transform": self.transform, "expectations": self.expectations}

    def content_hash(self) -> str:
        """The name of this definition: equal folders have equal hashes."""
        return hashlib.sha256(json.dumps(self.document(), sort_keys=True).encode()).hexdigest()[:16]
