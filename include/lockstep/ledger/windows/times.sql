-- name: begin
-- The event time of a pipeline with windows begins with its first plan.
insert into lockstep.event_time (pipeline) values (%(pipeline)s) on conflict do nothing

-- name: judge
-- What a live batch or a fill claims is judged, once and for good.
insert into lockstep.judged (stream_id, offsets, watermark)
select k.stream_id, k.offsets, coalesce(b.watermark, '-infinity')
from lockstep.claim k join lockstep.batch b using (batch_id)
where k.batch_id = %(batch_id)s and b.lane <> 'replay' order by k.stream_id, k.offsets

-- name: open_times
-- A stream that is new begins with the watermark of its pipeline.
insert into lockstep.stream_time (stream_id, opened_with)
select s.stream_id, e.watermark from lockstep.stream s join lockstep.event_time e using (pipeline)
where s.pipeline = %(pipeline)s and s.retired_at is null
  and not exists (select from lockstep.stream_time t where t.stream_id = s.stream_id)
order by s.stream_id on conflict do nothing

-- name: rise
-- The watermark is the least time of the open streams, and never less than it was.
update lockstep.event_time e set watermark = r.moment, moved_at = clock_timestamp()
from (
    select min(greatest(t.opened_with, t.seen - %(delay)s, t.idle_at - %(idle)s::interval - %(delay)s)) as moment
    from lockstep.stream s left join lockstep.stream_time t using (stream_id)
    where s.pipeline = %(pipeline)s and s.retired_at is null) r
where e.pipeline = %(pipeline)s and r.moment > e.watermark

-- name: watermark
-- How far the event time of a pipeline has come; no row: it has no windows, or was never planned.
select nullif(watermark, '-infinity') as watermark, moved_at from lockstep.event_time where pipeline = %(pipeline)s

-- name: rests
-- Whether a person has paused or forgotten the pipeline.
select p.paused or p.forgotten_by is not null as rests from lockstep.pipeline p where p.name = %(pipeline)s

-- name: clock
-- The database's time.
select clock_timestamp() as now

-- name: lock_streams
-- The open streams of a pipeline, in the one order that everybody takes.
select stream_id, topic, partition, cluster_id, topic_id, position from lockstep.stream
where pipeline = %(pipeline)s and retired_at is null order by stream_id for no key update

-- name: keep_idle
-- The log had nothing behind the position of these streams at that moment.
update lockstep.stream_time set idle_at = %(moment)s
where stream_id = any(%(streams)s::int[]) and %(moment)s > coalesce(idle_at, '-infinity')
