"""Makes the DAGs of all pipelines from one file."""
