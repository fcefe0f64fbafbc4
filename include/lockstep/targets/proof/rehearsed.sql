-- name: staged
-- Everything that the winners have staged for a target: rows, deletions and rejects, in the log's order.
select s.* from {table} s
join (select distinct task from lockstep.manifest where batch_id = %(batch_id)s and token = %(token)s) w on w.task = s._task
order by s._offset, s._ordinal

-- name: in_target
-- What stands in a target now, in the order of the records that wrote it.
select t.* from {target} t order by t._offset, t._ordinal

-- name: verdict
-- The verdict on an attempt, if it came to one.
select result from lockstep.verdict where batch_id = %(batch_id)s and token = %(token)s

-- name: make_schema
-- The schema of a table that stands for one in another store, whose schemas nobody has made here.
create schema if not exists {schema} authorization {owner};
grant usage on schema {schema} to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_reader

-- name: make_table
-- A table of the columns that another store is given; a transaction of the ledger's needs its key.
create table {table} ({columns}, primary key ({key}))
