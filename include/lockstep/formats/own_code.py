"""Loads the function that the definition names from a pipeline's `decode.py`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadDefinition
from lockstep.core.formats.deletions import Delete, why_no_deletion
from lockstep.core.pipeline.determinism import dotted_name, imported_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockstep.core.pipeline.formats import Custom
    from lockstep.core.pipeline.targets import Target

DELETE_NAMES = {"lockstep.Delete", f"{Delete.__module__}.Delete", "lockstep.core.pipeline.definition.Delete"}


def function_of(function: str, source: str | None) -> Callable[..., Any]:
    """Returns the decoder that the source defines. Raises `BadDefinition`, in one line, if there is none."""
    if source is None:
        raise BadDefinition(f"decode.py: missing; it holds {function}(key, value, headers)")
    module: dict[str, Any] = {"__name__": "decode"}
    try:
        exec(compile(source, "decode.py", "exec"), module)  # noqa: S102 - it is the pipeline's own code
    except SyntaxError as error:
        raise BadDefinition(f"decode.py:{error.lineno}: syntax: {error.msg}") from None
    except Exception as error:  # noqa: BLE001 - whatever it raises is its own mistake
        raise BadDefinition(f"decode.py: {type(error).__name__}: {' '.join(str(error).split())}") from None
    found = module.get(function)
    if not callable(found):
        raise BadDefinition(f"decode.py: it defines no function {function}(key, value, headers)")
    made: Callable[..., Any] = found
    return made


def refuse_vain_deletion(format_: Custom, source: str | None, targets: Sequence[Target]) -> None:
    """Refuses a decoder that names `Delete` although no target can delete. Raises `BadDefinition` with its line."""
    why = why_no_deletion(format_, targets)
    line = _line_of_delete(source) if why and source is not None else None
    if line is not None:
        raise BadDefinition(f"decode.py:{line}: Delete: {why}")


def _line_of_delete(source: str) -> int | None:
    """Returns the first line that uses `lockstep.Delete`, under whichever name it is imported."""
    tree = ast.parse(source)
    names = imported_names(tree)
    uses = (node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute))
    return min((node.lineno for node in uses if dotted_name(node, names) in DELETE_NAMES), default=None)
