-- name: lock_target
-- One commit at a time writes this target: lanes may meet on one key, and a tombstone must not be overtaken.
select pg_advisory_xact_lock(hashtextextended('lockstep.target ' || %(table)s, 0))

-- name: keep_newest
-- Of each key the newest staged record: by the target's order, then the stream's epoch, then the offset.
create temp table newest on commit drop as
select distinct on ({keys}) * from (
    select {placed}, t._stream, t._offset, t._ordinal, coalesce(t._deleted, false) as _deleted, s.epoch as "Epoch"{marks}
    from {rows} t join lockstep.stream s on s.stream_id = t._stream) staged
order by {keys}, {newest_first} "Epoch" desc, _offset desc, _stream desc, _ordinal desc

-- name: marks
-- The columns whose values a change record does not have.
, string_to_array(t._unavailable, ',') as _unavailable

-- name: without_order
-- A record without a value to order it by: sorted first of its key, it would win within a batch and lose elsewhere.
-- Another store knows a stream's number alone.
select coalesce(to_jsonb(s.*) ->> 'topic' || '-' || (to_jsonb(s.*) ->> 'partition'), 'stream ' || s.stream_id) as place, n._offset as "offset"
from newest n join lockstep.stream s on s.stream_id = n._stream
where {no_order} order by n._stream, n._offset limit 1

-- name: without_key
-- A record with null in its key: two of them would be one row or two, as batches cut them.
select coalesce(to_jsonb(s.*) ->> 'topic' || '-' || (to_jsonb(s.*) ->> 'partition'), 'stream ' || s.stream_id) as place, n._offset as "offset"
from newest n join lockstep.stream s on s.stream_id = n._stream
where {no_key} order by n._stream, n._offset limit 1

-- name: moved_within
-- A key in two partitions of one epoch: nothing says which record is newer. Sorted, so that no plan hopes to meet one soon.
select jsonb_build_array({newest_keys}) as key, t."One" as one, t."Other" as other
from (select {staged_keys}, s.epoch as "Epoch", min(t._stream) as "One", max(t._stream) as "Other"
      from {rows} t join lockstep.stream s on s.stream_id = t._stream
      group by {key_places}, s.epoch having min(t._stream) <> max(t._stream)) t
join newest n on {same_key} and n."Epoch" = t."Epoch" order by 1 limit 1

-- name: moved_between
-- A key in two topics: their epochs and offsets say nothing about each other. A topic that the pipeline moved to is no second one.
select jsonb_build_array({newest_keys}) as key, t."One" as one, t."Other" as other
from (select {staged_keys}, min(t._stream) as "One", max(t._stream) as "Other"
      from {rows} t join lockstep.stream s on s.stream_id = t._stream
      group by {key_places}
      having min(coalesce(s.first_topic, s.topic)) <> max(coalesce(s.first_topic, s.topic))) t
join newest n on {same_key} order by 1 limit 1

-- name: topics_of_streams
-- The topics of two streams, where the store of the rows knows them.
select to_jsonb(one.*) ->> 'topic' as one, to_jsonb(other.*) ->> 'topic' as other
from lockstep.stream one, lockstep.stream other where one.stream_id = %(one)s and other.stream_id = %(other)s

-- name: owner_of_rows
-- The pipeline whose records these are, and whether it has read several topics. Another store knows no topics.
select s.pipeline, exists (
    select from lockstep.stream o
    where o.pipeline = s.pipeline and coalesce(to_jsonb(o.*) ->> 'first_topic', to_jsonb(o.*) ->> 'topic')
        <> coalesce(to_jsonb(s.*) ->> 'first_topic', to_jsonb(s.*) ->> 'topic')) as of_several_topics
from lockstep.stream s where s.stream_id = coalesce((select n._stream from newest n limit 1), %(stream)s)

-- name: older
-- Of a key the row that is there (t, s) is of a newer record than the staged one (n). A former owner's row is not.
case when s.pipeline = any(%(peers)s)
    then ({target_order} s.epoch, t._offset, t._stream) > ({newest_order} n."Epoch", n._offset, n._stream)
    else {ranked_higher} end

-- name: apart
-- Offsets of these two streams (s and that of n) say nothing about which record is newer. Nor do epochs of two topics.
s.stream_id <> n._stream and s.pipeline = any(%(peers)s) and (s.pipeline <> %(pipeline)s or s.epoch = n."Epoch" or (
    %(of_several_topics)s and coalesce(to_jsonb(s.*) ->> 'first_topic', to_jsonb(s.*) ->> 'topic') <> (
        select coalesce(to_jsonb(o.*) ->> 'first_topic', to_jsonb(o.*) ->> 'topic')
        from lockstep.stream o where o.stream_id = n._stream)))

-- name: look_up
-- What the target has of these keys: rows, newer rows, and rows of a record in another partition of one epoch.
select count(*) as found, count(*) filter (where {older}) as newer,
    count(*) filter (where {apart}) as moved
from newest n join {target} t on {same_key} join lockstep.stream s on s.stream_id = t._stream

-- name: moved_since
-- The same, against what was written before.
select jsonb_build_array({newest_keys}) as key, t._stream as one, n._stream as other
from newest n join {target} t on {same_key}
join lockstep.stream s on s.stream_id = t._stream and {apart} limit 1

-- name: moved_since_deleted
-- The same, against deletions: a record beside a deletion in another partition of one epoch is neither older nor newer.
select d.key, d.stream_id as one, n._stream as other
from newest n join lockstep.tombstone d on d.target = %(target)s and d.key = jsonb_build_array({newest_keys})
join lockstep.stream s on s.stream_id = d.stream_id and {apart}
where not exists (select from {target} t where {same_key}) limit 1

-- name: drop_superseded
-- Records older than the row that is there change nothing.
delete from newest n using {target} t, lockstep.stream s
where {same_key} and s.stream_id = t._stream and {older}

-- name: deletions
-- Whether any key was deleted, by an earlier record of this target's or by one of these.
select exists (select from lockstep.tombstone d where d.target = %(target)s) as earlier,
    exists (select from newest n where n._deleted) as now

-- name: drop_dead
-- Records older than a tombstone do not raise the dead.
delete from newest n using lockstep.tombstone d, lockstep.stream s
where d.target = %(target)s and d.key = jsonb_build_array({newest_keys})
  and s.stream_id = d.stream_id and s.pipeline = %(pipeline)s
  and {dead}

-- name: dead_by_log
-- A later deletion: offsets are compared within a stream, epochs within a topic. Another store knows no topics.
case when s.stream_id = n._stream then d."offset" > n._offset else s.epoch > n."Epoch"
    and coalesce(to_jsonb(s.*) ->> 'first_topic', to_jsonb(s.*) ->> 'topic') is not distinct from (
        select coalesce(to_jsonb(o.*) ->> 'first_topic', to_jsonb(o.*) ->> 'topic') from lockstep.stream o where o.stream_id = n._stream) end

-- name: deletions_within
-- Of each key whose newest staged record is no deletion the newest staged deletion.
(select distinct on ({keys}) * from (
    select {placed}, t._stream, t._offset, true as _deleted, s.epoch as "Epoch"
    from {rows} t join lockstep.stream s on s.stream_id = t._stream where t._deleted) t
where exists (select from newest n where not n._deleted and {same_key})
order by {keys}, {newest_first} t."Epoch" desc, t._offset desc, t._stream desc)

-- name: insert_tombstones
-- A deletion leaves its order, whatever becomes of it, unless a later one of its key has left its own. Records that are newer
-- may be refused one day, and those before it must not return then.
insert into lockstep.tombstone as d (target, key, stream_id, "offset"{tombstone_order})
select %(target)s, jsonb_build_array({newest_keys}), n._stream, n._offset{deleted_order} from {deletions} n
where n._deleted and not exists (
    select from lockstep.tombstone d join lockstep.stream s on s.stream_id = d.stream_id and s.pipeline = %(pipeline)s
    where d.target = %(target)s and d.key = jsonb_build_array({newest_keys}) and {dead})
on conflict (target, key) do update set stream_id = excluded.stream_id, "offset" = excluded."offset"{keep_order}

-- name: delete_rows
-- A tombstone deletes its row.
delete from {target} t using newest n where n._deleted and {same_key}

-- name: insert_rows
-- Where none of the keys has a row: half the work.
insert into {target} ({columns}, _stream, _offset, _ordinal, _batch)
select {columns}, _stream, _offset, _ordinal, %(batch_id)s from newest where not _deleted

-- name: upsert_rows
-- The newest record of a key is its row.
insert into {target} ({columns}, _stream, _offset, _ordinal, _batch)
select {columns}, _stream, _offset, _ordinal, %(batch_id)s from newest where not _deleted
on conflict ({keys}) do update set {assignments},
    _stream = excluded._stream, _offset = excluded._offset, _ordinal = excluded._ordinal, _batch = excluded._batch

-- name: count_existing
-- How many of the keys already have a row.
select count(*) as existing from newest n join {target} t on {same_key} where not n._deleted

-- name: forget_newest
-- The next target of the same transaction has newest records of its own.
drop table newest

-- name: withdraw_rows
-- Rows whose newest record lies in a segment that is replayed: whether they come back, and how, is up to today's code.
delete from {target} t using lockstep.claim k
where k.batch_id = %(batch_id)s and k.expects = 'batch' and (%(stream_id)s is null or k.stream_id = %(stream_id)s)
  and t._stream = k.stream_id and t._offset >= lower(k.offsets) and t._offset < upper(k.offsets)

-- name: make_withdrawn
-- Room for the rows that a replay takes out. A record that leaves a value open finds it there.
create temp table withdrawn (like {target}) on commit drop

-- name: keep_withdrawn
-- Takes the rows out and keeps them.
with gone as ({withdraw_rows} returning t.*) insert into withdrawn select * from gone

-- name: withdraw_tombstones
-- Deletions by a replayed record.
delete from lockstep.tombstone d using lockstep.claim k
where d.target = %(target)s and k.batch_id = %(batch_id)s and k.expects = 'batch'
  and (%(stream_id)s is null or k.stream_id = %(stream_id)s)
  and d.stream_id = k.stream_id and d."offset" >= lower(k.offsets) and d."offset" < upper(k.offsets)

-- name: withdraw_truncations
-- Truncations of the source by a replayed record.
delete from lockstep.source_truncation f using lockstep.claim k
where f.target = %(target)s and k.batch_id = %(batch_id)s and k.expects = 'batch'
  and (%(stream_id)s is null or k.stream_id = %(stream_id)s)
  and f.stream_id = k.stream_id and f."offset" >= lower(k.offsets) and f."offset" < upper(k.offsets)
