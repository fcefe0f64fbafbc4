"""Runs a real S3 server over a folder: versitygw, which `make test-s3` builds where Go is."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lockstep.dev.servers import ports

if TYPE_CHECKING:
    from collections.abc import Iterator

BUILT = Path(__file__).parents[3] / ".lockstep" / "s3" / "versitygw"
REGION = "us-east-1"


@dataclass
class S3Store:
    """A store with one bucket, `lake`. The objects are files below `folder`."""

    endpoint: str
    folder: Path
    key: str = field(default_factory=lambda: f"id{secrets.token_hex(8)}")
    secret: str = field(default_factory=lambda: f"canary{secrets.token_hex(12)}")

    def options(self, **others: str) -> dict[str, str]:
        """Returns the store's options. `others` replace some, their underscores written as hyphens."""
        given = {
            "s3.endpoint": self.endpoint,
            "s3.region": REGION,
            "s3.access-key-id": self.key,
            "s3.secret-access-key": self.secret,
        }
        return given | {f"s3.{name.replace('_', '-')}": value for name, value in others.items()}


def versitygw() -> str:
    """Returns the server's program. Skips where there is none."""
    program = shutil.which("versitygw") or (str(BUILT) if BUILT.exists() else None)
    if program is None:
        pytest.skip("versitygw is not installed: make versitygw builds it, where Go is installed")
    return program


@contextmanager
def s3_store(home: Path) -> Iterator[S3Store]:
    """Runs the server. Skips, by name, where it was not built."""
    program = versitygw()
    port = ports.choose(home)
    store = S3Store(f"http://127.0.0.1:{port}", home / "objects")
    (store.folder / "lake").mkdir(parents=True)
    environ = {"ROOT_ACCESS_KEY": store.key, "ROOT_SECRET_KEY": store.secret, "PATH": os.defpath}
    command = [program, "--quiet", "--port", f"127.0.0.1:{port}", "--region", REGION, "posix", str(store.folder)]
    with (home / "s3.log").open("w") as log:
        server = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
    try:
        while not ports.answers(port):
            assert server.poll() is None, (home / "s3.log").read_text()
            time.sleep(0.05)
        yield store
    finally:
        server.terminate()
        server.wait(30)
