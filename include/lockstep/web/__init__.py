"""The pages inside Airflow: what the ledger knows, for people who are logged in and may see the DAG."""
