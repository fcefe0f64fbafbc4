"""Keeps an attempt alive, ends it, and finds it again after a crash."""
