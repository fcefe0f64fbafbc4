"""Builds the DAG for fills, replays and decisions, and runs its tasks."""
