"""Loads the function that the definition names from a pipeline's `decode.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadDefinition

if TYPE_CHECKING:
    from collections.abc import Callable


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
