"""Checks, for `make images`, that docker-compose.yaml and Dockerfile name their images by digest."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from lockstep.core.settings import ENVIRONMENT
from lockstep.installed import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_VARIABLE = re.compile(r"^(\w+_IMAGE)=(\S+)$", re.MULTILINE)
_BY_DIGEST = re.compile(r"\S+@sha256:[0-9a-f]{64}")


def named(checkout: Path = CHECKOUT, environ: Mapping[str, str] = ENVIRONMENT) -> dict[str, str]:
    """Returns each image by its variable: as the environment has it, else `.env`, else `.env.example`."""
    own = checkout / ".env"
    found = dict(_VARIABLE.findall((checkout / ".env.example").read_text()))
    found |= dict(_VARIABLE.findall(own.read_text())) if own.exists() else {}
    return {name: environ.get(name) or image for name, image in found.items()}


def unpinned(images: Mapping[str, str]) -> list[str]:
    """Returns one line for each image that a tag alone names, with the command that shows its digest."""
    return [
        f"{name}={image} has no digest: a tag may lead to another image tomorrow.  "
        f"Next: docker buildx imagetools inspect {image}, and {name}={image}@sha256:... into .env"
        for name, image in images.items()
        if not _BY_DIGEST.fullmatch(image)
    ]


def main() -> int:
    """Runs the check for make. Fails if an image has a tag alone."""
    lines = unpinned(named())
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
