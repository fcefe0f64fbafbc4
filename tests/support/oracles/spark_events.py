"""Reads the event logs of Spark's applications. Imports nothing of the product."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pathlib import Path


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Returns the events of this kind that the event logs below the folder hold, such as `ApplicationStart`."""
    logs = [path for path in sorted(folder.rglob("*")) if path.is_file() and "appstatus" not in path.name]
    found = [json.loads(line) for path in logs for line in _text(path).splitlines()]
    return [event for event in found if event["Event"] == f"SparkListener{kind}"]


def applications(folder: Path, name: str) -> list[str]:
    """Returns the ids of the applications with this name, in their order."""
    begun = [event for event in events(folder, "ApplicationStart") if event["App Name"] == name]
    return [event["App ID"] for event in sorted(begun, key=lambda event: event["Timestamp"])]


def _text(path: Path) -> str:
    if path.suffix != ".zstd":
        return path.read_text()
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        return stream.read().decode()
