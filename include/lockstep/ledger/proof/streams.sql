-- name: undecided
-- Streams that begin or end where no decision says so, and no older stream of their log ended. The first streams of a line of logs
-- begin where the definition says.
with its as materialized (
    select s as stream, s.*, min(s.epoch) over (partition by coalesce(s.first_topic, s.topic)) as first_epoch,
        lag(s.incarnation) over older as incarnation_before, lag(s.position) over older as ended,
        lag(s.cluster_id || ' ' || s.topic_id) over older = s.cluster_id || ' ' || s.topic_id as is_same_log
    from lockstep.stream s where s.pipeline = %(pipeline)s
    window older as (partition by coalesce(s.first_topic, s.topic), s.partition order by s.incarnation, s.epoch)),
said as materialized (
    select d.decision_id, d.kind, d.detail from lockstep.decision d
    where d.pipeline = %(pipeline)s and d.kind in ('topic', 'retire', 'move', 'hand-over')),
begun as (
    select i.* from its i
    where case when i.incarnation_before is null then i.epoch > i.first_epoch and i.start_offset > 0
        when i.incarnation_before = i.incarnation then i.start_offset <> i.ended
        else i.start_offset > 0 or i.is_same_log end
      and not exists (select from said d where lockstep.names_start(d.kind, d.detail, d.decision_id, i.stream)))
select b.topic, b.partition, 'stream ' || b.stream_id || ' begins at offset ' || b.start_offset || case
        when b.ended is null then ': [0, ' || b.start_offset || ') of a new partition were not read'
        when not b.is_same_log then ' of another log, after offset ' || b.ended
        when b.start_offset > b.ended then ': [' || b.ended || ', ' || b.start_offset || ') were not read'
        when b.start_offset < b.ended then ': [' || b.start_offset || ', ' || b.ended || ') are read twice'
        else '' end || ', and no decision says so; next: ' || case
        when b.ended is null then 'lockstep fill ' || b.pipeline || ' --from ' || b.partition || ':0 --until ' || b.partition || ':'
            || b.start_offset
        else 'lockstep batches ' || b.pipeline end as what, b.stream_id
from begun b
union all
select i.topic, i.partition, 'stream ' || i.stream_id || ' ended at offset ' || i.position
    || ', and no decision says so; next: lockstep batches ' || i.pipeline, i.stream_id
from its i
where i.retired_at is not null and not lockstep.goes_on(i.stream)
  and not exists (select from said d where lockstep.names_end(d.kind, d.detail, d.decision_id, i.stream))
order by 1, 2, 4

-- name: counts
-- How many streams a pipeline has had, and how many of them are closed.
select count(*) as streams, count(*) filter (where s.retired_at is not null) as closed
from lockstep.stream s where s.pipeline = %(pipeline)s

-- name: beginnings
-- Of each log of these streams, where it was begun, what of it below was never read, and how far upkeep says it has come. Null where
-- a decision or a definition's start says where it begins; a start is of the first streams alone. No fill reads below `before`.
select s.stream_id, s.topic, s.partition, s.start_offset, m.upkept_below, lockstep.read_before(s.stream_id) as before, case
        when exists (
            select from lockstep.decision d where d.pipeline = s.pipeline
              and d.kind in ('topic', 'adopt', 'retire', 'move', 'hand-over')
              and lockstep.names_start(d.kind, d.detail, d.decision_id, s))
        then null
        when s.incarnation = 0 and s.epoch = (
            select min(f.epoch) from lockstep.stream f
            where f.pipeline = s.pipeline and coalesce(f.first_topic, f.topic) = coalesce(s.first_topic, s.topic))
          and coalesce((
            select d.document ->> 'start' from lockstep.batch_range r join lockstep.attempt a using (batch_id)
            join lockstep.definition d using (definition_hash)
            where r.stream_id = s.stream_id order by r.batch_id, a.token limit 1), %(start)s) <> 'earliest'
        then null
        else int8multirange(int8range(0, s.start_offset)) - m.covered end::text as unread
from lockstep.stream s cross join lateral (
    select coalesce(range_agg(c.offsets), '{}') as covered, max(o.upkept_below) as upkept_below
    from lockstep.stream o left join lockstep.coverage c using (stream_id)
    where o.pipeline = s.pipeline and o.topic = s.topic and o.partition = s.partition
      and (o.cluster_id, o.topic_id) = (s.cluster_id, s.topic_id)) m
where s.stream_id = any(%(streams)s) and lockstep.opened_log(s.stream_id) = s.stream_id
order by s.topic, s.partition, s.stream_id
