-- name: has_unplaced
-- Whether a tombstone came without its deletion: in a batch of its own, in another task's part, or after compaction.
select exists (select from {rows} t where t._deleted and t._source_order is null) as yes

-- name: placed
-- A tombstone has the order of the newest record of its key before it in its stream.
coalesce(t._source_order, decode(substring(
    max(encode(int8send(t._offset) || t._source_order, 'hex') collate "C") filter (where t._source_order is not null)
        over (partition by {staged_key_values}, t._stream order by t._offset) from 17), 'hex')) as _source_order

-- name: newest_first
-- The last change of the source's log. A row without an order comes first, and is refused.
(_source_order is null and not _deleted) desc, _source_order desc nulls last,

-- name: before_newest
-- A record that lies before the newest one in the topic, too. Another one may be an old one that was sent again, and what
-- changed since may lie in earlier batches.

        join newest n on {same_staged_key} and (
            n._stream = t._stream and n._offset > t._offset and n._source_order >= t._source_order or n."Epoch" > s.epoch
                and coalesce(s.first_topic, s.topic) = (
                    select coalesce(o.first_topic, o.topic) from lockstep.stream o where o.stream_id = n._stream))

-- name: keep_order
-- A deletion keeps its order. One of another topic takes its place only if it is newer by the source's log.
, "order" = coalesce(excluded."order", d."order")
where excluded."order" > d."order"
    or (select coalesce(o.first_topic, o.topic) from lockstep.stream o where o.stream_id = excluded.stream_id)
    = (select coalesce(o.first_topic, o.topic) from lockstep.stream o where o.stream_id = d.stream_id)

-- name: drop_seconds
-- A tombstone right behind the last record of an earlier range: that one was its deletion, and had its effect. If its key was never
-- deleted, or that record made a row, was rejected, or deleted another key, it was none.
delete from newest n where n._deleted and n._source_order is null and exists (
    select from lockstep.result r join lockstep.commit m using (batch_id, stream_id, token)
    where r.stream_id = n._stream and r.last_offset = n._offset - 1)
  and exists (
    select from lockstep.tombstone d where d.target = %(target)s and d.key = jsonb_build_array({newest_keys}))
  and not exists (
    select from lockstep.tombstone d where d.target = %(target)s and d.stream_id = n._stream and d."offset" = n._offset - 1
      and d.key <> jsonb_build_array({newest_keys}))
  and not exists (select from {target} t where t._stream = n._stream and t._offset = n._offset - 1)
  and not exists (select from lockstep.reject j where j.stream_id = n._stream and j."offset" = n._offset - 1)

-- name: remember_last
-- The last deletion of each stream is remembered also where it lost: the next range may begin with its tombstone.
insert into lockstep.tombstone (target, key, stream_id, "offset", "order")
select %(target)s, l.key, l._stream, l._offset, l._source_order
from (
    select distinct on (t._stream) jsonb_build_array({staged_key_values}) as key, t._stream, t._offset, t._source_order
    from {rows_of_keys} t where t._deleted and t._source_order is not null order by t._stream, t._offset desc) l
on conflict (target, key) do nothing

-- name: place_by_rows
-- A tombstone whose deletion is gone from the topic deletes the row that is there, in the order of the topic.
update newest n set _source_order = t._source_order
from {target} t where {same_key} and n._deleted and n._source_order is null

-- name: older_row
-- Whether the first record of a change that is older by its place and younger by its time than the row that is there.
select coalesce(to_jsonb(s.*) ->> 'topic' || '-' || (to_jsonb(s.*) ->> 'partition'), 'stream ' || s.stream_id) as place,
    n._offset as "offset", ({now} - {was}) / 3600000 as hours
from newest n join {target} t on {same_key} join lockstep.stream s on s.stream_id = n._stream
where t._source_order > n._source_order and {was} > 0 and {now} > {was} + %(most)s
order by n._stream, n._offset limit 1

-- name: older_deletion
-- The same, against deletions.
select coalesce(to_jsonb(s.*) ->> 'topic' || '-' || (to_jsonb(s.*) ->> 'partition'), 'stream ' || s.stream_id) as place,
    n._offset as "offset", ({now} - {was}) / 3600000 as hours
from newest n join lockstep.tombstone t on t.target = %(target)s and t.key = jsonb_build_array({newest_keys})
join lockstep.stream s on s.stream_id = n._stream
where t."order" > n._source_order and {was} > 0 and {now} > {was} + %(most)s
order by n._stream, n._offset limit 1

-- name: time_of
-- The source's time in milliseconds, at the end of an order. It is 0 for a record of a snapshot.
('x' || encode(substring({order} from length({order}) - 7), 'hex'))::bit(64)::bigint

-- name: dead_by_source
-- A later deletion of the source's log. One without an order counts by the topic's.
(coalesce(d."order", n._source_order, ''), s.epoch, d."offset", d.stream_id)
    > (coalesce(n._source_order, d."order", ''), n."Epoch", n._offset, n._stream)
