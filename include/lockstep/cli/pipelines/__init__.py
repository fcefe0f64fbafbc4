"""Holds the commands that create, change and end a pipeline."""
