"""The Java that runs the broker and Ivy."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping


def find(environ: Mapping[str, str] = os.environ) -> Path:
    """The `java` of JAVA_HOME, else the first on PATH."""
    if java_home := environ.get("JAVA_HOME"):
        java = Path(java_home) / "bin" / "java"
        if os.access(java, os.X_OK):
            return java
        raise Refusal(f"JAVA_HOME is {java_home}, but {java} is no program.", next_command="unset JAVA_HOME")
    if found := shutil.which("java", path=environ.get("PATH")):
        return Path(found)
    raise Refusal("no Java: neither JAVA_HOME nor PATH leads to one.", next_command="apt-get install openjdk-17-jre")
