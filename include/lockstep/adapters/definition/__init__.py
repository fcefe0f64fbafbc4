"""Evaluates a definition in a process that has no secret, and returns its values. The author's code runs nowhere else."""
