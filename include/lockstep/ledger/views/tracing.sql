-- name: known_partitions
-- The partitions of a topic that a pipeline has ever had a stream of.
select distinct partition from lockstep.stream where pipeline = %(pipeline)s and topic = %(topic)s order by partition

-- name: owner_of_offset
-- Who owns one offset of a partition's newest log, or of a given stream's, by which attempt of which run, and what was read around
-- it. An older incarnation of this log has read what lies below the start of the newest one.
select s.stream_id, s.topic, s.partition, %(offset)s::bigint as "offset", c.kind, m.batch_id, m.token, a.dag_id, a.dag_run_id,
    t.first_offset, t.last_offset, t.delivered, t.filtered, upper(r.offsets) - lower(r.offsets) as span
from lockstep.stream s
left join lockstep.coverage c on int4range(c.stream_id, c.stream_id, '[]') && int4range(s.stream_id, s.stream_id, '[]')
    and c.offsets @> %(offset)s::bigint
left join lateral (
    select c.batch_id from lockstep.batch_range o
    where o.batch_id = c.batch_id and o.stream_id = c.stream_id and o.offsets @> %(offset)s::bigint) own on true
-- what upkeep has merged names one batch of many: the newest commit over the offset owns it
left join lateral (
    select r.batch_id from lockstep.batch_range r join lockstep.commit n using (batch_id, stream_id)
    where own.batch_id is null and c.kind = 'batch' and r.stream_id = c.stream_id and r.offsets @> %(offset)s::bigint
    order by n.token desc limit 1) merged on true
left join lockstep.commit m on m.batch_id = coalesce(own.batch_id, merged.batch_id) and m.stream_id = c.stream_id
left join lockstep.batch_range r on r.batch_id = m.batch_id and r.stream_id = m.stream_id
left join lockstep.attempt a on a.batch_id = m.batch_id and a.token = m.token
left join lockstep.result t on t.batch_id = m.batch_id and t.token = m.token and t.stream_id = m.stream_id
where s.pipeline = %(pipeline)s and s.topic = %(topic)s and s.partition = %(partition)s
  and (s.cluster_id, s.topic_id) = (
    select n.cluster_id, n.topic_id from lockstep.stream n
    where n.pipeline = s.pipeline and n.topic = s.topic and n.partition = s.partition
      and n.stream_id = coalesce(%(of_stream)s::int, n.stream_id) order by n.incarnation desc limit 1)
order by s.start_offset > %(offset)s::bigint, s.incarnation desc, c.kind is null, s.epoch desc limit 1

-- name: log_of_stream
-- The log that a stream reads.
select cluster_id, topic, topic_id from lockstep.stream where stream_id = %(stream_id)s

-- name: reject_of_offset
-- Why a record was refused.
select reason, timestamp, key, value from lockstep.reject where stream_id = %(stream_id)s and "offset" = %(offset)s

-- name: rows_of_offset
-- The target's rows that one record became.
select * from {target} where _stream = %(stream_id)s and _offset = %(offset)s order by _ordinal

-- name: rows_of_key
-- The target's row of a key.
select * from {target} where ({columns}) = ({values})

-- name: versions_of_key
-- A key's last version: the current one, or the deletion that ended it.
select * from {target} where ({columns}) = ({values})
order by valid_until is null desc, _deleted desc, _stream desc, _offset desc, _ordinal desc limit 1

-- name: origin_of_row
-- From a row's coordinates to where it was read, and by which attempt of which run.
select o._stream as stream_id, o.topic, o.partition, %(offset)s::bigint as "offset", %(batch_id)s::bigint as batch_id, m.token,
    a.dag_id, a.dag_run_id
from lockstep.origin o
left join lockstep.commit m on m.batch_id = %(batch_id)s and m.stream_id = o._stream
left join lockstep.attempt a on a.batch_id = m.batch_id and a.token = m.token
where o._stream = %(stream_id)s

-- name: contributions_of_key
-- What adds up to the row of an accumulated key: per segment, by which attempt, from which offsets; the newest first.
select s.topic, s.partition, lower(r.offsets) as from_offset, upper(r.offsets) as until_offset, c.batch_id, m.token,
    c.records, c.folded, c.totals::text as totals
from lockstep.contribution c join lockstep.stream s using (stream_id) join lockstep.batch_range r using (batch_id, stream_id)
left join lockstep.commit m using (batch_id, stream_id)
where c.target = {table} and c.key = (select jsonb_build_array({columns}) from {target} where ({columns}) = ({values}))
order by c.stream_id desc, c."offset" desc

-- name: tombstone_of_key
-- Which record deleted a key's row, as the store of the rows remembers it.
select stream_id, "offset" from lockstep.tombstone d where d.target = %(target)s
  and array(select v.value from jsonb_array_elements_text(d.key) with ordinality v (value, place) order by v.place) = %(key)s

-- name: last_truncation
-- The last truncation of a table's source.
select s.topic || '-' || s.partition as place, f."offset"
from lockstep.source_truncation f join lockstep.stream s using (stream_id)
where f.target = %(target)s and s.pipeline = %(pipeline)s order by f."order" desc limit 1

-- name: record_of_tombstone
-- That record, and the attempt that owns it.
select d.stream_id, s.topic, s.partition, d."offset", m.batch_id, m.token, a.dag_id, a.dag_run_id
from (select %(stream_id)s::int as stream_id, %(offset)s::bigint as "offset") d join lockstep.stream s using (stream_id)
left join lockstep.coverage c on int4range(c.stream_id, c.stream_id, '[]') && int4range(s.stream_id, s.stream_id, '[]')
    and c.offsets @> d."offset"
left join lateral (
    select c.batch_id from lockstep.batch_range o
    where o.batch_id = c.batch_id and o.stream_id = c.stream_id and o.offsets @> d."offset") own on true
-- what upkeep has merged names one batch of many: the newest commit over the offset owns it
left join lateral (
    select r.batch_id from lockstep.batch_range r join lockstep.commit n using (batch_id, stream_id)
    where own.batch_id is null and c.kind = 'batch' and r.stream_id = c.stream_id and r.offsets @> d."offset"
    order by n.token desc limit 1) merged on true
left join lockstep.commit m on m.batch_id = coalesce(own.batch_id, merged.batch_id) and m.stream_id = c.stream_id
left join lockstep.attempt a on a.batch_id = m.batch_id and a.token = m.token
