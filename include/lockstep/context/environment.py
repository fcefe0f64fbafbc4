"""Sets variables of the environment, for a block, or from a file for a driver on a cluster."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal
from lockstep.core.lake.catalogs import CATALOG_PREFIX
from lockstep.core.pipeline.stores import STORE_PREFIX
from lockstep.core.settings import (
    DSN_COMMAND,
    ENGINE,
    ENVIRONMENT,
    KAFKA_OPTIONS,
    LAKE_CONFIG,
    REGISTRY_OPTIONS,
    STAGER_DSN,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PLACE = "LOCKSTEP_ENVIRONMENT"
OF_DRIVERS = frozenset(
    {
        *("LOCKSTEP_DSN", DSN_COMMAND, STAGER_DSN, "LOCKSTEP_KAFKA", KAFKA_OPTIONS),
        *("LOCKSTEP_REGISTRY", REGISTRY_OPTIONS),
        *("LOCKSTEP_LAKE", LAKE_CONFIG, "LOCKSTEP_PIPELINES", ENGINE),
    }
)
OTHERS = 0o077  # the rights of everybody but the owner


def load_environment() -> None:
    """Sets the variables of LOCKSTEP_ENVIRONMENT's file that this process does not have.

    The file holds one JSON object of texts. Only its owner may read it, for it holds passwords. Raises `Refusal`
    otherwise, and never repeats a value. Does nothing without LOCKSTEP_ENVIRONMENT.
    """
    if place := ENVIRONMENT.get(PLACE):
        for name, value in _read(place).items():
            os.environ.setdefault(name, value)


def _read(place: str) -> dict[str, str]:
    file = Path(place)
    try:
        facts = file.stat()
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise _bad(place, f"it cannot be read here: {error.strerror}") from None
    except ValueError:
        raise _bad(place, "it is no JSON") from None
    if facts.st_mode & OTHERS:
        raise Refusal(f"{PLACE}: {place} may be read by others than its owner", next_command=f"chmod 600 {place}")
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise _bad(place, "it must be one JSON object whose values are texts")
    of_stores = (STORE_PREFIX, CATALOG_PREFIX)
    if unknown := sorted(name for name in found if name not in OF_DRIVERS and not name.startswith(of_stores)):
        raise _bad(place, f"no driver takes {', '.join(unknown)}")
    return found


def _bad(place: str, why: str) -> Refusal:
    wanted = "names of variables and their values"
    return Refusal(f"{PLACE}: {place}: {why}", next_command=f"put a JSON object into that file: {wanted}")


@contextmanager
def environment_set(environ: Mapping[str, str]) -> Iterator[None]:
    """Sets these variables for the block only, because `dag.test()` runs the tasks of many pipelines in one process."""
    before = {name: ENVIRONMENT.get(name) for name in environ}
    os.environ.update(environ)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
