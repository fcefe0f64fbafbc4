"""Holds the statements by which docs/clusters.md makes a login for executors."""

from __future__ import annotations

MAKE_STAGER = """create role {stager} login password '...';
grant lockstep_executor to {stager};
grant {stager} to {run};
"""
