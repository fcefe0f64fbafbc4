"""Stands in for a system that a test leaves out, or that has to misbehave on demand."""
