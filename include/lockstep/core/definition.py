"""Keeps the old path of `lockstep.Pipeline` and its values, for pipelines that still import it. Warns."""

from __future__ import annotations

from typing import Any
from warnings import warn

from lockstep.core.pipeline import definition


def __getattr__(name: str) -> Any:
    value = getattr(definition, name)
    warn(f"lockstep.core.definition is an old path: from lockstep import {name}", DeprecationWarning, stacklevel=2)
    return value
