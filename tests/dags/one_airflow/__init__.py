"""Tests that share one Airflow, which takes more time to start than most of them take."""
