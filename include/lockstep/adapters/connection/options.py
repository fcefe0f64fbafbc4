"""Reads the options of a client that a variable holds, or names a file with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lockstep.core.errors import Refusal


def options_of(variable: str, given: str) -> dict[str, Any]:
    """Returns the options that a variable holds: a JSON object, or the path of a file with one."""
    if not given:
        return {}
    try:
        text = given if given.startswith("{") else Path(given).read_text(encoding="utf-8")
        options = json.loads(text)
    except OSError:  # the value may hold a password, so it is not repeated
        raise _bad_options(variable, "it is neither a JSON object nor the path of a file that can be read") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise _bad_options(variable, f"no JSON: {error}") from None
    if not isinstance(options, dict) or not all(isinstance(v, str | int | float) for v in options.values()):
        raise _bad_options(variable, "it must be one JSON object of options and plain values")
    return options


def content_of(variable: str, path: str) -> str:
    """Returns the text of a file that the options of a variable name."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}"
        raise _bad_options(variable, why) from None


def _bad_options(variable: str, why: str) -> Refusal:
    return Refusal(f"{variable}: {why}", next_command="set it to a JSON object, or to the path of one")
