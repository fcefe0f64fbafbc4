"""Tests images by digest: a tag alone is refused."""

from __future__ import annotations

import subprocess
import sys

from lockstep.dev.setup import images
from lockstep.installed import CHECKOUT

DIGEST = "sha256:" + "0123456789abcdef" * 4


def test_each_image_is_taken_from_the_nearest_place_that_names_it(tmp_path):
    (tmp_path / ".env.example").write_text("A_IMAGE=a:1\nB_IMAGE=b:1\nC_IMAGE=c:1\nPORT=1\n")
    (tmp_path / ".env").write_text("B_IMAGE=b:2\nC_IMAGE=c:2\n")

    assert images.named(tmp_path, {"C_IMAGE": "c:3"}) == {"A_IMAGE": "a:1", "B_IMAGE": "b:2", "C_IMAGE": "c:3"}


def test_a_tag_alone_is_refused_with_the_command_that_shows_its_digest():
    (line,) = images.unpinned({"A_IMAGE": "a:1", "B_IMAGE": f"b:2@{DIGEST}"})

    assert line.startswith("A_IMAGE=a:1 has no digest")
    assert "Next: docker buildx imagetools inspect a:1, and A_IMAGE=a:1@sha256:... into .env" in line


def test_half_a_digest_is_none():
    assert len(images.unpinned({"A_IMAGE": f"a@{DIGEST[:-1]}", "B_IMAGE": "b@sha256:..."})) == 2


def test_this_checkout_names_tags_until_somebody_pins_them():
    named = images.named(environ={name: f"{image}@{DIGEST}" for name, image in images.named(environ={}).items()})

    assert len(named) == 5
    assert images.unpinned(named) == []
    said = subprocess.run(
        [sys.executable, "-m", "lockstep.dev.setup.images"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={},
    )
    if not (CHECKOUT / ".env").exists():
        assert (said.returncode, said.stderr.count(" has no digest")) == (1, 5)
