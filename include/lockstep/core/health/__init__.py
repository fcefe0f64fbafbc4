"""Judges the surroundings of a pipeline, and names each fault with its remedy."""
