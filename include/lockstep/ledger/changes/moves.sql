-- name: last_move
-- The decision by which a pipeline moved to another topic or cluster, the newest one.
select decision_id, who, detail ->> 'digest' as digest from lockstep.decision
where pipeline = %(pipeline)s and kind = 'move' order by decision_id desc limit 1

-- name: own_line
-- Whether a pipeline has read a topic that is not of the line of these streams.
select exists (
    select from lockstep.stream t join lockstep.stream o on o.stream_id = any(%(streams)s)
        and coalesce(o.first_topic, o.topic) <> coalesce(t.first_topic, t.topic)
    where t.pipeline = o.pipeline and t.topic = %(topic)s) as is_another

-- name: skipped
-- Offsets of the logs of these streams that were skipped and not filled. Growth leaves them with an older stream of the log.
select coalesce(sum(upper(c.offsets) - lower(c.offsets)), 0)::bigint as skipped
from lockstep.stream s join lockstep.stream o on o.pipeline = s.pipeline and o.topic = s.topic
    and o.partition = s.partition and o.incarnation = s.incarnation
join lockstep.coverage c on c.stream_id = o.stream_id and c.kind = 'skipped'
where s.stream_id = any(%(streams)s)

-- name: insert_successors
-- Each stream goes on in the other topic, behind the copy of what it has read, in one new epoch.
insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset, position,
    leader_epoch, first_topic)
select o.pipeline, %(cluster_id)s, %(topic)s, %(topic_id)s, o.partition, 1 + o.incarnation, 1 + (
        select max(e.epoch) from lockstep.stream e
        where e.pipeline = o.pipeline and coalesce(e.first_topic, e.topic) = coalesce(o.first_topic, o.topic)),
    n.start, n.start, n.leader_epoch, nullif(coalesce(o.first_topic, o.topic), %(topic)s)
from unnest(%(streams)s::int[], %(starts)s::bigint[], %(leader_epochs)s::int[]) as n (stream_id, start, leader_epoch)
join lockstep.stream o using (stream_id) order by o.partition

-- name: moved_streams
-- Each stream that was closed by a move, where it stood, and the log and offset at which it goes on. Not where nothing was read
-- there until the pipeline moved on, back perhaps.
select o.topic, o.topic_id, o.cluster_id, o.partition, o.position, d.detail #>> '{to,topic}' as to_topic,
    d.detail #>> '{to,topic_id}' as to_topic_id, d.detail #>> '{to,cluster_id}' as to_cluster_id, m."offset" as start_offset
from lockstep.decision d
cross join jsonb_to_recordset(d.detail -> 'moved') m (stream_id int, "offset" bigint)
join lockstep.stream o on o.stream_id = m.stream_id and o.pipeline = d.pipeline
where d.pipeline = %(pipeline)s and d.kind = 'move' and exists (
    select from lockstep.stream n
    where n.pipeline = o.pipeline and n.partition = o.partition and n.incarnation = o.incarnation + 1
      and coalesce(n.first_topic, n.topic) = coalesce(o.first_topic, o.topic)
      and (n.retired_at is null or n.position > n.start_offset))
order by d.decision_id, o.partition
