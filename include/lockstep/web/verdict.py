"""Formats a batch's verdict for a reader, the most urgent results first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.violations import columns_of, is_critical

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.ledger.reading import Document

PLACES = 8  # of violating rows, per expectation


def refusals(verdict: Document | None) -> list[str]:
    """Returns the reasons why the attempt must not be committed."""
    return list(_result(verdict).get("refusals") or [])


def expectations(verdict: Document | None, partitions: Mapping[int, int]) -> list[dict[str, Any]]:
    """Returns the result of each expectation, failed ones first. `places` are (partition, offset) of violating rows."""
    told = [_told(result, partitions) for result in _result(verdict).get("results") or []]
    return sorted(told, key=lambda each: ("fails", "warns", "quarantines", "holds").index(each["says"]))


def _result(verdict: Document | None) -> dict[str, Any]:
    return (verdict or {}).get("result") or {}


def _told(result: dict[str, Any], partitions: Mapping[int, int]) -> dict[str, Any]:
    config, found = result["expectation_config"], result.get("result") or {}
    rows = found.get("partial_unexpected_index_list") or []
    return {
        "type": config["type"],
        "columns": ", ".join(columns_of(config.get("kwargs") or {})),
        "says": _says(result, config),
        "failing": found.get("unexpected_count"),
        "observed": found.get("observed_value"),
        "places": [(partitions.get(row["_stream"]), row["_offset"]) for row in rows[:PLACES]],
        "more": max(0, (found.get("unexpected_count") or 0) - PLACES) if rows else 0,
    }


def _says(result: dict[str, Any], config: dict[str, Any]) -> str:
    if result["success"]:
        return "holds"
    if result.get("quarantined"):
        return "quarantines"
    return "fails" if is_critical(config) else "warns"
