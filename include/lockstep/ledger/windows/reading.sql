-- name: counts
-- How many windows of a target are open, due and shown, how many of these were changed since, and how many rows were late.
-- A window that nothing is left of is never shown, so it is none of them if it was not shown before.
select w.open, w.due, w.emitted, w.updated, l.late
from (
    select count(*) filter (where revision = 0 and not passed) as open, count(*) filter (where revision = 0 and passed) as due,
        count(*) filter (where revision > 0) as emitted, count(*) filter (where revision > 1) as updated
    from (
        select s.revision, coalesce(s.ends <= e.watermark, false) as passed
        from lockstep.window_state s left join lockstep.event_time e on e.pipeline = %(pipeline)s
        where s.target = %(target)s and (s.revision > 0 or exists (
            select from lockstep.contribution c where c.target = s.target and c.key = s.key))) known) w
cross join (select count(*) as late from lockstep.late where target = %(target)s) l

-- name: streams
-- How far the event time of each open stream has come.
select s.topic, s.partition, s.position,
    nullif(greatest(t.opened_with, t.seen - %(delay)s, t.idle_at - %(idle)s::interval - %(delay)s), '-infinity') as time,
    t.seen, t.idle_at,
    coalesce(t.idle_at - %(idle)s::interval > greatest(t.opened_with + %(delay)s, t.seen), false) as is_idle
from lockstep.stream s left join lockstep.stream_time t using (stream_id)
where s.pipeline = %(pipeline)s and s.retired_at is null order by s.partition

-- name: windows
-- The newest windows of a target, each over all of its keys.
with newest as (
    select distinct s.ends from lockstep.window_state s where s.target = %(target)s and (s.revision > 0 or exists (
        select from lockstep.contribution c where c.target = s.target and c.key = s.key)) order by s.ends desc limit %(last)s),
chosen as (
    select s.key, s.ends, s.revision, (s.key ->> 0)::timestamptz as start from lockstep.window_state s
    where s.target = %(target)s and s.ends >= (select min(ends) from newest) and (s.revision > 0 or exists (
        select from lockstep.contribution c where c.target = s.target and c.key = s.key))),
added as (
    select c.key, sum(c.records) as records from chosen w join lockstep.contribution c on c.target = %(target)s and c.key = w.key
    group by c.key)
select w.start, max(w.ends) as "end", count(*) as keys, sum(c.records)::bigint as records, sum(w.revision)::bigint as revisions,
    bool_or(w.revision > 0) as is_shown, coalesce(max(w.ends) <= max(e.watermark), false) as is_passed,
    coalesce(max(w.ends) + %(lateness)s <= max(e.watermark), false) as is_closed,
    (select count(*) from lockstep.late l where l.target = %(target)s and l.window_start = w.start) as late
from chosen w left join added c using (key) left join lockstep.event_time e on e.pipeline = %(pipeline)s
group by w.start order by w.start desc limit %(last)s

-- name: late_windows
-- Windows with late rows, the newest first.
select window_start as start, max(window_end) as "end", count(*) as rows from lockstep.late
where target = %(target)s group by window_start order by window_start desc limit %(last)s

-- name: late_records
-- The newest late rows, or those behind one of them: when each was judged, and the decision that admits it.
select s.topic, s.partition, l."offset", l.ordinal, l.event_time, l.window_start, l.window_end, l.key - 0 as key, l.watermark,
    extract(epoch from l.watermark - l.window_end)::float8 as late_by_seconds, l.batch_id as batch, b.closed_at as judged_at,
    (select j.admitted_by from lockstep.judged j
     where j.stream_id = l.stream_id and lower(j.offsets) <= l."offset" order by lower(j.offsets) desc limit 1) as admitted_by, l.row
from lockstep.late l join lockstep.stream s using (stream_id) join lockstep.batch b on b.batch_id = l.batch_id
where l.target = %(target)s and (%(partition)s::int is null or s.partition = %(partition)s)
  and (%(batch)s::bigint is null or l.batch_id <= %(batch)s and (l.batch_id, s.partition, l."offset", l.ordinal, l.window_start)
      < (%(batch)s, %(before_partition)s, %(before_offset)s, %(before_ordinal)s, %(before_window)s))
order by l.batch_id desc, s.partition desc, l."offset" desc, l.ordinal desc, l.window_start desc limit %(last)s

-- name: held
-- The watermark, the newest event of all partitions, and what was late and counted of the pipeline's tables.
select nullif(e.watermark, '-infinity') as watermark, (
        select max(t.seen) from lockstep.stream s join lockstep.stream_time t using (stream_id)
        where s.pipeline = e.pipeline and s.retired_at is null) as newest,
    (select count(*) from lockstep.late where target = any(%(targets)s::text[])) as late,
    (select coalesce(sum(records), 0)::bigint from lockstep.contribution where target = any(%(targets)s::text[])) as counted
from lockstep.event_time e where e.pipeline = %(pipeline)s

-- name: count_late
-- How many rows of a target are late.
select count(*) as late from lockstep.late where target = %(target)s

-- name: late_ranges
-- The judged ranges of a pipeline that hold late rows of these targets, in streams of today's log. Those that are admitted wait for
-- their replay.
select distinct j.stream_id, s.topic, s.partition, lower(j.offsets) as from_offset, upper(j.offsets) as until_offset,
    j.admitted_by is not null as is_admitted
from lockstep.late l join lockstep.judged j on j.stream_id = l.stream_id and j.offsets @> l."offset"
join lockstep.stream s on s.stream_id = l.stream_id
where l.target = any(%(targets)s::text[]) and s.stream_id = any(%(streams)s::int[])
  and (%(begin)s::bigint is null or l."offset" >= %(begin)s) and (%(end)s::bigint is null or l."offset" < %(end)s)
order by 1, 4

-- name: admit
-- Nothing of these ranges is late any more, by this decision.
update lockstep.judged j set admitted_by = %(decision)s
from unnest(%(streams)s::int[], %(froms)s::bigint[]) as r (stream_id, from_offset)
where j.stream_id = r.stream_id and lower(j.offsets) = r.from_offset and j.admitted_by is null

-- name: note_admits
-- What a preview would admit.
insert into lockstep.request_admits (request_id, stream_id, offsets)
select %(request_id)s, r.stream_id, int8range(r.from_offset, r.until_offset)
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) as r (stream_id, from_offset, until_offset)

-- name: admits
-- What a preview would admit, and nobody has admitted so far.
select a.stream_id, s.topic, s.partition, lower(a.offsets) as from_offset, upper(a.offsets) as until_offset
from lockstep.request_admits a join lockstep.stream s using (stream_id)
join lockstep.judged j on j.stream_id = a.stream_id and j.offsets = a.offsets and j.admitted_by is null
where a.request_id = %(request_id)s order by 1, 4

-- name: replay_over
-- An open replay that still does all of these offsets, and that reads nothing below the log's start.
select r.request_id from lockstep.request r
cross join unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) as w (stream_id, from_offset, until_offset)
where r.pipeline = %(pipeline)s and r.lane = 'replay' and r.closed_at is null and not r.preview
  and not exists (
    select from lockstep.request_window o
    join unnest(%(starting)s::int[], %(log_starts)s::bigint[]) as b (stream_id, log_start) on b.stream_id = o.stream_id
    where o.request_id = r.request_id and lower(o.offsets) < b.log_start)
group by r.request_id having bool_and(
    exists (
        select from lockstep.request_window o
        where o.request_id = r.request_id and o.stream_id = w.stream_id and o.offsets @> int8range(w.from_offset, w.until_offset))
    and not exists (
        select from lockstep.coverage c join lockstep.commit m on m.batch_id = c.batch_id and m.stream_id = c.stream_id
        where int4range(c.stream_id, c.stream_id, '[]') && int4range(w.stream_id, w.stream_id, '[]')
          and c.offsets && int8range(w.from_offset, w.until_offset) and c.kind = 'batch' and m.token >= r.token))
order by r.request_id limit 1

-- name: judged_by
-- The watermark that a batch was judged by, and its late rows by target.
select nullif(b.watermark, '-infinity') as watermark, (
    select jsonb_object_agg(l.target, l.rows) from (
        select target, count(*) as rows from lockstep.late where batch_id = b.batch_id group by target) l) as late
from lockstep.batch b where b.batch_id = %(batch_id)s

-- name: effect
-- What the attempt that committed a batch did to its targets.
select a.effect from lockstep.batch b join lockstep.attempt a using (batch_id, token)
where b.batch_id = %(batch_id)s and b.state = 'committed'

-- name: next_window
-- The end of the first window that the watermark has not passed, and how many keys it has.
select s.ends, count(*) as keys from lockstep.window_state s
where s.target = %(target)s and s.revision = 0
  and exists (select from lockstep.contribution c where c.target = s.target and c.key = s.key) and s.ends = (
    select min(n.ends) from lockstep.window_state n
    where n.target = %(target)s and n.revision = 0
      and exists (select from lockstep.contribution c where c.target = n.target and c.key = n.key)
      and n.ends > coalesce((select e.watermark from lockstep.event_time e where e.pipeline = %(pipeline)s), '-infinity'))
group by s.ends
