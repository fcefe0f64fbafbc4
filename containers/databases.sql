-- What the Postgres container holds at birth: the ledger's database and Airflow's own, each with its login.
\getenv lockstep LOCKSTEP_PG_PASSWORD
\getenv airflow AIRFLOW_PG_PASSWORD
create role lockstep login createdb createrole password :'lockstep';
create database lockstep owner lockstep;
create role airflow login password :'airflow';
create database airflow owner airflow;
