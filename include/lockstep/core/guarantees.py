"""Guarantees: in which order results and offsets move, and what a crash between them can cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PerBatch:
    """Transactional per batch: results and offsets of the whole batch move in one Postgres transaction."""


Guarantee = PerBatch
