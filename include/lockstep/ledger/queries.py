"""Loads named queries from .sql files, each with a line that states its purpose."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMED = re.compile(r"^-- name: (\w+)\n-- (.+)\n", re.MULTILINE)


@cache
def queries(package: str, subject: str) -> Mapping[str, str]:
    """Returns the named queries of `package`'s `subject.sql`. A query needs a purpose line to have a name."""
    text = files(package).joinpath(f"{subject}.sql").read_text(encoding="utf-8")
    marks = list(_NAMED.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return {mark[1]: text[mark.end() : end].strip().rstrip(";") for mark, end in zip(marks, ends, strict=True)}
