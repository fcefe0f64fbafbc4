"""Wakes a pipeline's run when the broker has something new, beside its schedule."""
