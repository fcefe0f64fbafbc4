"""Runs the transform on committed batches again, and compares what it makes with what is there."""
