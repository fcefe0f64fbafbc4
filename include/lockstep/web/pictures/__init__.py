"""Draws offsets, times and lag as SVG."""
