"""Reads the options of clients that a variable holds, or names a file with: Kafka's, the registry's, the lake's, catalogs'."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadDefinition, Refusal

if TYPE_CHECKING:
    from lockstep.core.kafka_options import KafkaOptions


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


def kafka_options_given(variable: str, given: str, where: str) -> KafkaOptions:
    """Returns the options of Kafka's client with the contents of their files. `where` says what to correct."""
    from lockstep.core.kafka_options import kafka_options  # noqa: PLC0415 - tasks of the lake need none

    options = options_of(variable, given)
    try:
        found = kafka_options(options)
    except BadDefinition as error:
        raise BadDefinition(error.message, next_command=f"{where}, then lockstep doctor") from None
    return found.inlined(partial(content_of, variable))


def _bad_options(variable: str, why: str) -> Refusal:
    return Refusal(f"{variable}: {why}", next_command="set it to a JSON object, or to the path of one")
