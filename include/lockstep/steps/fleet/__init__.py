"""Looks at many pipelines at once, and says which of them have something to do."""
