"""Guarantees: in which order results and offsets move, and what a crash between them can cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PerBatch:
    """Transactional per batch: results and offsets of the whole batch move in one Postgres transaction."""


@dataclass(frozen=True, slots=True)
class Idempotent:
    """Results by natural key, then offsets: a crash between them makes the results be written again, over themselves."""


@dataclass(frozen=True, slots=True)
class AtLeastOnce:
    """Results, then offsets: a crash between them makes the results be appended again; none is lost, some may be doubled."""


@dataclass(frozen=True, slots=True)
class AtMostOnce:
    """Offsets, then results: a crash between them leaves the results out; none is doubled, some may be lost."""


# Results and offsets move one after the other, so the results may live in any store.
Delivered = Idempotent | AtLeastOnce | AtMostOnce
Guarantee = PerBatch | Idempotent | AtLeastOnce | AtMostOnce
