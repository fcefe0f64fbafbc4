"""Defines what a person may change about a pipeline, and what each change needs."""
