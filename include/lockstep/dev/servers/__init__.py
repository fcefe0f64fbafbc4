"""Runs the servers of the embedded stack: Postgres, Kafka, Spark Connect and Airflow."""
