"""Finds rows of offset ranges: by the bounds of files, in a scan, and among rows that were read. Finds odd deletes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysFalse, And, EqualTo, GreaterThanOrEqual, LessThan, Or
from pyiceberg.manifest import DataFileContent, ManifestContent

from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg import types

    from lockstep.core.lake.files import Replaced


def bounds_of_files(file: Any, field: types.NestedField) -> tuple[int, int]:
    """Returns the least and the greatest value of a column of whole numbers. Without bounds it may be any."""
    kind = field.field_type
    found = [of.get(field.field_id) if of else None for of in (file.lower_bounds, file.upper_bounds)]
    low, high = (None if raw is None else from_bytes(kind, raw) for raw in found)
    return -(2**63) if low is None else low, 2**63 - 1 if high is None else high


def equality_deletes(metadata: Any, io: Any) -> list[str]:
    """Returns the files of other writers that delete rows by value. pyiceberg can neither apply nor plan them."""
    snapshot = metadata.current_snapshot()
    deletes = [m for m in snapshot.manifests(io) if m.content == ManifestContent.DELETES] if snapshot else []
    files = [entry.data_file for manifest in deletes for entry in manifest.fetch_manifest_entry(io)]
    return [file.file_path for file in files if file.content == DataFileContent.EQUALITY_DELETES]


def refuse_equality_deletes(name: str, metadata: Any, io: Any) -> None:
    """Refuses deletes that pyiceberg cannot apply, by the name of their file."""
    for path in equality_deletes(metadata, io):
        raise Refusal(
            f"{name}: {path} holds equality deletes, which cannot be applied here",
            next_command=f"in Spark: call lockstep.system.rewrite_data_files('{name.partition('.')[2]}', "
            "options => map('delete-file-threshold', '1'))",
        )


def within_ranges(ranges: Sequence[Replaced]) -> Any:
    """Returns the expression of a scan for rows of these ranges."""
    each = [
        And(EqualTo("_stream", r.stream), GreaterThanOrEqual("_offset", r.begin), LessThan("_offset", r.end))
        for r in ranges
    ]
    return Or(*each) if len(each) > 1 else each[0] if each else AlwaysFalse()


def any_of(replaced: Sequence[Replaced], rows: pa.Table) -> Any:
    """Returns, for each row, if it lies in one of the ranges."""
    found = pa.array([False] * rows.num_rows)
    for each in replaced:
        of_stream = pc.equal(rows["_stream"], each.stream)
        inside = pc.and_(pc.greater_equal(rows["_offset"], each.begin), pc.less(rows["_offset"], each.end))
        found = pc.or_(found, pc.and_(of_stream, inside))
    return found
