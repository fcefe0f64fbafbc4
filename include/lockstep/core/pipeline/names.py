"""Refuses names that no pipeline can have.

A name is a folder, a Python module and two DAG ids at once.
"""

from __future__ import annotations

import keyword
import re
import unicodedata

from lockstep.core.errors import BadDefinition, quoted
from lockstep.core.pipeline.columns import IDENTIFIER

SUFFIX = "_history"  # of a history's DAG, behind the pipeline's name
MOST_NAME_LENGTH = 63
NAME_SUFFIX = "_records"  # what a word of Python is given to become a name
_OTHERS = re.compile(r"[^a-z0-9]+")
_ENDINGS = re.compile(rf"({SUFFIX}|_)+\Z")


def refuse_bad_name(name: str) -> None:
    """Refuses a name that is no identifier, a name of Python's, or the DAG id of another pipeline's history."""
    if not IDENTIFIER.match(name):
        raise _bad(name, f"lower case letters, digits and _, no digit first, {MOST_NAME_LENGTH} at most")
    if keyword.iskeyword(name):
        raise _bad(name, "a word of Python, which no module can have as its name")
    if name.startswith("__"):
        raise _bad(name, "names that begin with __ are Python's own")
    if name.endswith(SUFFIX):
        raise _bad(name, f"{SUFFIX} is the ending of a history's DAG, here of {name.removesuffix(SUFFIX)!r}")


def good_name(name: str) -> str:
    """Returns a similar name that a pipeline can have."""
    plain = unicodedata.normalize("NFKD", name[:MOST_NAME_LENGTH]).encode("ascii", "ignore").decode().lower()
    good = _OTHERS.sub("_", plain).strip("_")
    good = good if good[:1].isalpha() else f"p_{good}"
    good = _ENDINGS.sub("", good[: MOST_NAME_LENGTH - len(NAME_SUFFIX)])
    return f"{good}{NAME_SUFFIX}" if keyword.iskeyword(good) or good == "p" else good


def _bad(name: str, why: str) -> BadDefinition:
    return BadDefinition(f"name {quoted(name)}: {why}", next_command=f"lockstep new {good_name(name)} --topic TOPIC")
