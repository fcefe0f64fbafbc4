"""Opens the outside systems for every entry point: the command line, Airflow's tasks, pages and notebooks."""
