"""Shows the ledger's contents on pages inside Airflow, for users who are logged in and may see the DAG."""
