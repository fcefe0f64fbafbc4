-- name: moves_of_batch
-- What a commit did to each table of the lake, and what its preparation took.
select concat_ws('.', m.catalog, m.namespace, m.name) as target, m.batch_id as batch, m.snapshot_id, m.before, m.after,
    m.added_files, m.removed_files, m.rewritten_files, f.files, f.rows, f.bytes,
    extract(epoch from m.at - p.at)::float8 as prepare_seconds, p.retries
from lockstep.lake_commit m
cross join lateral (
    select count(*) as files, coalesce(sum(rows), 0)::bigint as rows, coalesce(sum(bytes), 0)::bigint as bytes
    from lockstep.lake_file l where (l.batch_id, l.token, l.place) = (m.batch_id, m.token, m.place)) f
cross join lateral (
    select max(r.at) as at, greatest(count(*) - 1, 0) as retries from lockstep.lake_prepared r
    where (r.batch_id, r.token, r.place) = (m.batch_id, m.token, m.place)) p
where m.batch_id = %(batch_id)s order by m.place

-- name: newest_batch
-- The newest batch of a pipeline that has moved tables of the lake.
select n.batch_id from lockstep.lake_commit n join lockstep.batch b using (batch_id)
where b.pipeline = %(pipeline)s order by n.batch_id desc limit 1

-- name: longest_attempt
-- How long files of an attempt may wait for their commit.
select max(t.took) as longest from (
    select coalesce(a.closed_at, clock_timestamp()) - a.opened_at as took
    from lockstep.lake_prefix x join lockstep.attempt a using (batch_id, token) join lockstep.batch b using (batch_id)
    where b.pipeline = %(pipeline)s order by x.batch_id desc limit 100) t
