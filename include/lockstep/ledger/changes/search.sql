-- name: still_told
-- What people wrote and the chain holds: it cannot be taken out.
select 'the reason of decision ' || d.decision_id as what from lockstep.decision d
where d.pipeline = any(lockstep.line_of(%(pipeline)s)) and (d.why ~ %(pattern)s or d.who ~ %(pattern)s or d.detail::text ~ %(pattern)s)
union all
select 'the reason of request ' || r.request_id from lockstep.request r
where r.pipeline = any(lockstep.line_of(%(pipeline)s)) and (r.why ~ %(pattern)s or r.who ~ %(pattern)s) order by 1

-- name: still_held
-- Rows of a target that hold the key in other columns, or that another pipeline wrote.
select count(*) as rows from {target} t where (t.*)::text ~ %(pattern)s

-- name: searched_tables
-- The ledger's tables with columns that may hold a key, and by which column their rows belong to a pipeline. Images of feeds
-- and rows that wait to be sent are counted on their own, and staged rows are dropped by erase.
select n.nspname as schema, c.relname as name, has_table_privilege(c.oid, 'SELECT') as is_readable,
    array_agg(a.attname::text order by a.attnum) as columns,
    array_agg(format_type(a.atttypid, null) order by a.attnum) as kinds,
    (select k.name from unnest(%(scopes)s) with ordinality as k (name, place) join pg_attribute b on b.attrelid = c.oid
     and b.attname = k.name and not b.attisdropped order by k.place limit 1) as scope
from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
where c.relkind in ('r', 'p') and not c.relispartition and n.nspname in ('lockstep', 'lockstep_lake')
  and a.attnum > 0 and not a.attisdropped and a.attname <> all(%(names)s)
  and format('%%s.%%s.%%s', n.nspname, c.relname, a.attname) <> all(%(known)s)
  and format_type(a.atttypid, null) in ('text', 'text[]', 'character varying', 'json', 'jsonb', 'bytea')
group by n.nspname, c.oid order by 1, 2

-- name: rows_that_hold
-- How many rows of the pipeline hold the key, by column.
select array[{counts}] as rows from {table} t where {scope}

-- name: in_text
-- Rows that hold the key in this column.
count(*) filter (where t.{column}::text ~ %(pattern)s)

-- name: in_bytes
-- Rows that hold the key in these bytes.
count(*) filter (where exists (select from unnest(%(needles)s::bytea[]) k where position(k in t.{column}) > 0))

-- name: of_pipeline
-- Rows of the pipeline, and of those that handed a table over to it.
t.pipeline = any(lockstep.line_of(%(pipeline)s))

-- name: of_stream
-- Rows of its streams.
t.stream_id in (select s.stream_id from lockstep.stream s where s.pipeline = any(lockstep.line_of(%(pipeline)s)))

-- name: of_batch
-- Rows of its batches.
t.batch_id in (select b.batch_id from lockstep.batch b where b.pipeline = any(lockstep.line_of(%(pipeline)s)))

-- name: of_request
-- Rows of its requests.
t.request_id in (select r.request_id from lockstep.request r where r.pipeline = any(lockstep.line_of(%(pipeline)s)))

-- name: of_target
-- Rows of its targets.
t.target = any(%(targets)s)
