-- name: create_cluster
-- What a new cluster holds before anybody can connect; single-user mode reads one statement a line.
alter role postgres password '$superuser';
create role lockstep login createdb createrole password '$lockstep';
create database lockstep owner lockstep;
