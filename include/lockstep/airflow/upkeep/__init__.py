"""Builds the DAG that keeps the lake tables of a pipeline, and runs its task."""
