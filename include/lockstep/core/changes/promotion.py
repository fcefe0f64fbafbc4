"""Defines a promotion: the one transform that makes a pipeline's rows from exact offsets on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.planning.decisions import Blocked

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

DIGEST_DIGITS = 16  # digits of a digest in a line for people


@dataclass(frozen=True, slots=True)
class Promotion:
    """A recorded decision. `transform` is the SHA-256 of the source, `file` its name when it was promoted.

    `starts` are the first offsets that it makes, with topic and partition. `canary` has the figures of a canary of the
    file, or is None.
    """

    decision: int
    who: str
    why: str
    at: datetime
    transform: str
    file: str
    starts: tuple[Mapping[str, Any], ...]
    canary: Mapping[str, Any] | None

    def document(self) -> dict[str, Any]:
        """Returns it as plain values."""
        return {
            "decision": self.decision,
            "who": self.who,
            "why": self.why,
            "at": self.at,
            "transform": self.transform,
            "file": self.file,
            "from": [{name: each[name] for name in ("topic", "partition", "offset")} for each in self.starts],
            "canary": self.canary,
        }


def transform_digest(source: str) -> str:
    """Returns the name of a transform: the SHA-256 of its source, as `sha256sum transform.py` prints it."""
    return hashlib.sha256(source.encode()).hexdigest()


def not_deployed(name: str, promotion: Promotion | None, source: str | None) -> Blocked | None:
    """Returns Blocked if the folder's transform is not the promoted one. `source` is None for a folder without one."""
    if promotion is None or (source is not None and transform_digest(source) == promotion.transform):
        return None
    here = f"has {transform_digest(source)[:DIGEST_DIGITS]}" if source is not None else "has no transform.py"
    return Blocked(
        f"{name}: {promotion.who} promoted {promotion.file} ({promotion.transform[:DIGEST_DIGITS]}) in decision "
        f"{promotion.decision}, and the folder here {here}; no other transform is committed",
        f"deploy {promotion.file} as transform.py, or lockstep promote {name} --withdraw --reason ...",
    )
