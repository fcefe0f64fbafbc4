-- What the Postgres container holds at birth: the ledger's database and Airflow's own, each with its logins.
\getenv lockstep LOCKSTEP_PG_PASSWORD
\getenv run LOCKSTEP_RUN_PG_PASSWORD
\getenv airflow AIRFLOW_PG_PASSWORD
-- `lockstep` migrates: it owns the ledger and the targets. Airflow runs as `lockstep_run`, which has a run's five roles
-- and can neither make roles nor change history.
create role lockstep login createdb createrole password :'lockstep';
create role lockstep_run login password :'run';
create role lockstep_owner nologin;
create role lockstep_targets nologin;
create role lockstep_planner nologin;
create role lockstep_stager nologin;
create role lockstep_committer nologin;
create role lockstep_partition nologin;
create role lockstep_reader nologin;
create role lockstep_executor nologin;
create role lockstep_judge nologin;
grant lockstep_owner, lockstep_targets, lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader,
    lockstep_executor, lockstep_judge to lockstep with admin option;
grant lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader to lockstep_run;
create database lockstep owner lockstep;
create role airflow login password :'airflow';
create database airflow owner airflow;
