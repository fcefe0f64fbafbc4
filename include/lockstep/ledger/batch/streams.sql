-- name: open_streams
-- The streams of a pipeline that are not retired, with their positions.
select stream_id, topic, partition, cluster_id, topic_id, incarnation, epoch, start_offset, position, leader_epoch
from lockstep.stream where pipeline = %(pipeline)s and retired_at is null order by stream_id

-- name: read_before
-- Below which offset of each stream others have read: an older incarnation of its log, or a former owner of the table.
select s.stream_id, lockstep.read_before(s.stream_id) as before from unnest(%(streams)s::int[]) s (stream_id)

-- name: latest_epochs
-- The newest epoch and incarnation of each partition, retired ones included, and which log that incarnation is. A topic that
-- the pipeline moved to goes on with the numbers of the one before it.
select distinct on (t.topic, s.partition) t.topic, s.partition, max(s.epoch) over (partition by t.topic, s.partition) as epoch,
    s.incarnation, s.cluster_id, s.topic_id
from (
    select n.topic, coalesce((
        select coalesce(o.first_topic, o.topic) from lockstep.stream o
        where o.pipeline = %(pipeline)s and o.topic = n.topic limit 1), n.topic) as line
    from unnest(%(topics)s::text[]) n (topic)) t
join lockstep.stream s on s.pipeline = %(pipeline)s and coalesce(s.first_topic, s.topic) = t.line
order by t.topic, s.partition, s.incarnation desc

-- name: insert_streams
-- A stream is born at its start; all of an epoch, and of several topics, in one statement.
insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset, position,
    leader_epoch, first_topic)
select %(pipeline)s, %(cluster_id)s, n.topic, n.topic_id, n.partition, n.incarnation, n.epoch, n.start, n.start, n.leader_epoch, (
    select o.first_topic from lockstep.stream o where o.pipeline = %(pipeline)s and o.topic = n.topic limit 1)
from unnest(%(topics)s::text[], %(topic_ids)s::text[], %(epochs)s::int[], %(partitions)s::int[], %(incarnations)s::int[],
    %(starts)s::bigint[], %(leader_epochs)s::int[])
    with ordinality as n (topic, topic_id, epoch, partition, incarnation, start, leader_epoch, place)
order by n.place

-- name: insert_boundary
-- A time is resolved once and reused by all, so that adjacent windows tile.
insert into lockstep.boundary (stream_id, at, "offset") values (%(stream_id)s, %(at)s, %(offset)s) on conflict do nothing

-- name: insert_growth
-- The topic got new partitions, and every stream a new epoch.
insert into lockstep.decision (pipeline, kind, who, why) values (%(pipeline)s, 'grow', %(who)s, %(why)s)

-- name: ends_of_topics
-- Where the newest stream of each partition stands, retired or not, and which log it has read.
select distinct on (topic, partition) topic, partition, position, cluster_id, topic_id
from lockstep.stream where pipeline = %(pipeline)s and topic = any(%(topics)s)
order by topic, partition, incarnation desc, epoch desc

-- name: topics_ever
-- The topics that a pipeline has ever read.
select distinct topic from lockstep.stream where pipeline = %(pipeline)s

-- name: insert_topics
-- A pipeline of several topics reads these from now on. The decision stands before their streams.
insert into lockstep.decision (pipeline, kind, who, why, detail)
values (%(pipeline)s, 'topic', %(who)s, %(why)s, jsonb_build_object('topics', %(topics)s::jsonb))

-- name: retire_stream
-- A stream is closed for good; its coverage stays.
update lockstep.stream set retired_at = clock_timestamp() where stream_id = %(stream_id)s and retired_at is null

-- name: topics_left
-- Topics that a pipeline has read and moved on from, with the topic that it reads in their place.
select n.topic, s.topic as now from unnest(%(topics)s::text[]) n (topic)
join lockstep.stream o on o.pipeline = %(pipeline)s and o.topic = n.topic
join lockstep.stream s on s.pipeline = o.pipeline and coalesce(s.first_topic, s.topic) = coalesce(o.first_topic, o.topic)
    and s.retired_at is null and s.topic <> n.topic
order by n.topic

-- name: closed_log
-- The first of these streams whose log no open stream goes on with. Growth closes a stream and keeps its log.
select s.topic, s.partition, s.position from lockstep.stream s
where s.stream_id = any(%(streams)s::int[]) and not exists (
    select from lockstep.stream o where o.pipeline = s.pipeline and o.topic = s.topic and o.partition = s.partition
        and o.incarnation = s.incarnation and o.retired_at is null)
order by s.topic, s.partition limit 1
