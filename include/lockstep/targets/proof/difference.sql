-- name: keep_before
-- The rows that a batch may change, as they are before it: those of its offsets, and of the keys it staged or takes out of.
create temp table {before} on commit drop as
{rows_of_offsets} {and_of_keys_before}

-- name: count_differences
-- How many rows came, went, changed and stayed; a row answers to its key, and `_batch` is not looked at.
with pairs as (
    select to_jsonb(b.*) - '_batch' as old, to_jsonb(a.*) - '_batch' as new
    from {rows_before} b full join {rows_after} a on {same_key})
select count(*) filter (where old is null) as added, count(*) filter (where new is null) as removed,
    count(*) filter (where old <> new) as changed, count(*) filter (where old = new) as unchanged
from pairs

-- name: sample_differences
-- The first rows of each kind, as they were and as they would be.
with pairs as (
    select to_jsonb(b.*) - '_batch' as old, to_jsonb(a.*) - '_batch' as new
    from {rows_before} b full join {rows_after} a on {same_key}),
told as (
    select case when old is null then 'added' when new is null then 'removed' else 'changed' end as kind, old, new,
        coalesce(new, old) as row
    from pairs where old is distinct from new)
select kind, old::text as before, new::text as after from (
    select *, row_number() over (partition by kind order by (row ->> '_stream')::int, (row ->> '_offset')::bigint) as place
    from told) numbered where place <= %(most)s order by kind, place

-- name: after
-- The rows that the batch has left: its own offsets', and those of keys that it touched.
{rows_of_offsets} {and_of_keys_after}

-- name: rows_of_offsets
-- Rows of the batch's offsets. Each range is a look into an index.
select t.* from lockstep.batch_range r join {target} t
    on t._stream = r.stream_id and t._offset >= lower(r.offsets) and t._offset < upper(r.offsets)
where r.batch_id = %(batch_id)s

-- name: and_of_keys
-- Rows of other offsets that have one of these keys.
union all
select t.* from {target} t where ({keys}) in ({wanted_keys}) and not exists (
    select from lockstep.batch_range r where r.batch_id = %(batch_id)s and r.stream_id = t._stream
      and t._offset >= lower(r.offsets) and t._offset < upper(r.offsets))

-- name: of_staged_keys
-- Keys that the attempt's winners staged.
select {staged_keys} from {rows} t

-- name: of_older_keys
-- Keys of rows from before a truncation of the source that the attempt's winners staged.
select {target_keys} from {target} o where exists (
    select from {rows} t where {is_truncation} and (o._source_order >= t._source_order) is not true)

-- name: of_replaced_keys
-- Keys that the segments to be replaced have added to.
select {kept_keys} from lockstep.contribution c
join lockstep.claim k on k.expects_batch = c.batch_id and k.stream_id = c.stream_id
where k.batch_id = %(batch_id)s and k.expects = 'batch' and c.target = {table}

-- name: of_offsets_keys
-- Keys of the rows of its offsets.
select {keys} from lockstep.batch_range r join {target} t
    on t._stream = r.stream_id and t._offset >= lower(r.offsets) and t._offset < upper(r.offsets)
where r.batch_id = %(batch_id)s

-- name: of_kept_keys
-- Keys that were remembered.
select {before_keys} from {before} b

-- name: count_rejects
-- How many rejects there are in the batch's offsets, and how many the attempt staged.
select (select count(*) from lockstep.reject j join lockstep.batch_range r
        on r.stream_id = j.stream_id and j."offset" >= lower(r.offsets) and j."offset" < upper(r.offsets)
        where r.batch_id = %(batch_id)s) as before,
    (select sum(u.rejected) from lockstep.result u where u.batch_id = %(batch_id)s and u.token = %(token)s) as after

-- name: count_late
-- How many late rows there are in the batch's offsets.
select count(*) as late from lockstep.late l join lockstep.batch_range r
    on r.stream_id = l.stream_id and l."offset" >= lower(r.offsets) and l."offset" < upper(r.offsets)
where r.batch_id = %(batch_id)s
