"""Keeps evidence of what was compared, for later looks."""
