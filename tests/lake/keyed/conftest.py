"""Provides pipelines that upsert into the lake and into the database, so that both can be compared."""

from __future__ import annotations

from importlib.util import find_spec

# The extra `lake` is installed with the locks. Without it, these tests are left out.
collect_ignore_glob = [] if find_spec("pyiceberg") else ["test_*.py"]
