"""Reads and writes a batch: its plan, its attempts and its commit."""
