"""Defines a pipeline and its parts as values: source, format, columns, targets, guarantee and limits."""
