"""Adapts Airflow: its connections, and the names that it has moved between its versions."""
