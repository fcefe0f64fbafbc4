"""Runs the steps: each loads, asks core, and saves. The command line, a scheduler and the tests call them alike."""
