"""Sets variables of the environment for a block."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lockstep.core.settings import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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
