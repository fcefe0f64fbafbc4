-- name: windowed
-- The pipelines with event time.
select pipeline from lockstep.event_time order by pipeline

-- name: log_starts
-- The log start that the newest committed batch of each stream has seen, or where the archive begins. What lies below is gone for good.
select s.stream_id, least(u.log_start_after, lower(lockstep.archive_of(s.stream_id))) as log_start from lockstep.stream s cross join lateral (
    select c.batch_id from lockstep.coverage c where c.stream_id = s.stream_id and c.kind = 'batch'
    order by lower(c.offsets) desc limit 1) newest
join lockstep.commit m on m.batch_id = newest.batch_id and m.stream_id = s.stream_id
join lockstep.result u on u.batch_id = m.batch_id and u.token = m.token and u.stream_id = m.stream_id
where s.pipeline = %(pipeline)s order by s.stream_id

-- name: note_folded
-- Folding lets go of what lies below these log starts, so nothing below them is archived later.
update lockstep.stream s set upkept_below = b.log_start
from (select lockstep.opened_log(f.stream_id) as log, max(f.log_start) as log_start
    from unnest(%(streams)s::int[], %(log_starts)s::bigint[]) as f (stream_id, log_start) group by 1) b
where lockstep.opened_log(s.stream_id) = b.log and s.upkept_below < b.log_start and s.retired_at is null

-- name: gone_for_good
-- The segment of a contribution ends at or before its log's start, and nobody claims it.
exists (
    select from lockstep.batch_range r
    join unnest(%(streams)s::int[], %(log_starts)s::bigint[]) as b (stream_id, log_start) on b.stream_id = r.stream_id
    where r.batch_id = c.batch_id and r.stream_id = c.stream_id and upper(r.offsets) <= b.log_start
      and not exists (select from lockstep.claim k where k.stream_id = r.stream_id and k.offsets && r.offsets))

-- name: next_keys
-- The next closed windows, in order, to which several segments contribute that are gone for good.
select c.key::text as key from lockstep.contribution c join lockstep.window_state w on w.target = c.target and w.key = c.key
where c.target = %(target)s and c.key > %(behind)s::jsonb and {gone_for_good} and w.ends + %(lateness)s <= (
    select e.watermark from lockstep.event_time e where e.pipeline = %(pipeline)s)
group by c.key having count(*) > 1 order by c.key limit %(most)s

-- name: fold
-- The newest of a window's contributions takes in all others that are gone for good.
with near as (
    select c.batch_id, c.stream_id, c.key,
        row_number() over (partition by c.key order by c.stream_id desc, c."offset" desc, c.ordinal desc) = 1 as takes
    from lockstep.contribution c where c.target = %(target)s and c.key = any(%(keys)s::jsonb[]) and {gone_for_good}),
whole as (
    select c.key, sum(c.records)::bigint as records, jsonb_build_object({combined_totals}) as totals
    from near n join lockstep.contribution c
        on c.target = %(target)s and (c.batch_id, c.stream_id, c.key) = (n.batch_id, n.stream_id, n.key)
    group by c.key)
update lockstep.contribution c set
    records = case when n.takes then w.records else 0 end,
    folded = case when n.takes then w.records - (c.records - c.folded) else 0 end,
    totals = case when n.takes then w.totals else '{{}}' end
from near n join whole w using (key)
where c.target = %(target)s and (c.batch_id, c.stream_id, c.key) = (n.batch_id, n.stream_id, n.key)

-- name: drop_emptied
-- What has given up its records goes.
delete from lockstep.contribution c where c.target = %(target)s and c.key = any(%(keys)s::jsonb[]) and c.records = 0
