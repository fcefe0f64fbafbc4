"""Formats a batch's verdict for a reader, the most urgent results first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.pipeline.violations import expected_columns, is_critical

if TYPE_CHECKING:
    from collections.abc import Mapping

    Document = Mapping[str, Any]

PLACES_PER_EXPECTATION = 8  # of violating rows, per expectation


def refusals(verdict: Document | None) -> list[str]:
    """Returns the reasons why the attempt must not be committed."""
    return list(_result(verdict).get("refusals") or [])


def expectations(verdict: Document | None, partitions: Mapping[int, int]) -> list[dict[str, Any]]:
    """Returns the result of each expectation, failed ones first. `places` are (partition, offset) of violating rows."""
    told = [_told(result, partitions) for result in _result(verdict).get("results") or []]
    return sorted(told, key=lambda each: ("fails", "warns", "quarantines", "holds").index(each["says"]))


def lines(verdict: Document | None, partitions: Mapping[int, int]) -> list[str]:
    """Returns the verdict for a log: how many expectations hold, each other one, and the reasons of a refusal."""
    found = expectations(verdict, partitions)
    reasons = refusals(verdict)
    others = [each for each in found if each["says"] != "holds"]
    head = "the verdict refuses the batch" if reasons else "the verdict passes"
    if found:
        head += f": {len(found) - len(others)} of {len(found)} expectations hold"
    named = [f"  {each['says']}: {each['type']}({each['columns']}){_rows(each['failing'])}" for each in others]
    return [head, *named, *(f"  refused: {reason}" for reason in reasons)]


def summary(verdict: Document | None, partitions: Mapping[int, int]) -> dict[str, Any]:
    """Returns the verdict as JSON without any value of a record."""
    shown = ("type", "columns", "says", "failing")
    return {
        "success": bool(verdict and verdict["success"]),
        "expectations": [{name: each[name] for name in shown} for each in expectations(verdict, partitions)],
        "refusals": refusals(verdict),
    }


def _rows(failing: int | None) -> str:
    return "" if failing is None else f": {failing} row{'' if failing == 1 else 's'}"


def _result(verdict: Document | None) -> dict[str, Any]:
    return (verdict or {}).get("result") or {}


def _told(result: dict[str, Any], partitions: Mapping[int, int]) -> dict[str, Any]:
    config, found = result["expectation_config"], result.get("result") or {}
    rows = found.get("partial_unexpected_index_list") or []
    return {
        "type": config["type"],
        "columns": ", ".join(expected_columns(config.get("kwargs") or {})),
        "says": _says(result, config),
        "failing": found.get("unexpected_count"),
        "observed": found.get("observed_value"),
        "places": [(partitions.get(row["_stream"]), row["_offset"]) for row in rows[:PLACES_PER_EXPECTATION]],
        "more": max(0, (found.get("unexpected_count") or 0) - PLACES_PER_EXPECTATION) if rows else 0,
    }


def _says(result: dict[str, Any], config: dict[str, Any]) -> str:
    if result["success"]:
        return "holds"
    if result.get("quarantined"):
        return "quarantines"
    return "fails" if is_critical(config) else "warns"
