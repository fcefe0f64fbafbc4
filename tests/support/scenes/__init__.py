"""Makes the pipelines, records and commands that a test begins with."""
