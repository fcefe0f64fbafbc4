-- name: erased_columns
-- The columns in which keys were erased, of a pipeline and of those whose tables it was given.
select distinct pipeline, column_name, as_uuid from lockstep.erasure
where pipeline = any(lockstep.line_of(%(pipeline)s)) order by 1, 2, 3

-- name: drop_erased
-- Staged rows that hold an erased key and lie below its bounds.
delete from {table} t using lockstep.stream s, lockstep.erasure e, lockstep.erasure_bound b
where s.stream_id = t._stream and e.pipeline = %(pipeline)s and e.column_name = %(column)s and e.as_uuid = %(as_uuid)s
  and e.digest = lockstep.key_digest(
    (select z.salt from lockstep.erasure_salt z where z.pipeline = %(pipeline)s), convert_to({key}, 'UTF8'))
  and b.erasure_id = e.erasure_id and b.topic_id = s.topic_id and b.partition = s.partition and t._offset < b.until_offset
returning t._task as task, t._stream as stream_id, t._offset as "offset", coalesce(t._deleted, false) as deleted

-- name: rows_left
-- Which of these records still have a row in the table of a range.
select distinct t._offset as "offset" from {table} t where t._offset = any(%(offsets)s::bigint[]) and t._reason is null

-- name: empty_rejects
-- Staged rejects of an erased record: of an erased Kafka key, or at an offset whose reject was erased.
update {table} t set _key = null, _value = null, _headers = null, _reason = 'erased' from lockstep.stream s
where s.stream_id = t._stream and t._reason is not null and (exists (
    select from lockstep.erased x join lockstep.erasure e using (erasure_id) join lockstep.stream o on o.stream_id = x.stream_id
    where e.pipeline = any(lockstep.line_of(%(pipeline)s)) and x."offset" = t._offset and (o.topic_id, o.partition) = (s.topic_id, s.partition))
  or exists (
    select from lockstep.erasure e join lockstep.erasure_salt z using (pipeline) join lockstep.erasure_bound b using (erasure_id)
    where e.pipeline = any(lockstep.line_of(%(pipeline)s)) and b.topic_id = s.topic_id and b.partition = s.partition and t._offset < b.until_offset
      and e.digest = lockstep.key_digest(z.salt, t._key)))

-- name: drop_bytes
-- Bytes of erased records that are kept beside a transform.
delete from {table} t using unnest(%(streams)s::int[], %(offsets)s::bigint[]) as v (stream_id, "offset")
where t._stream = v.stream_id and t._offset = v."offset"

-- name: erased_keys
-- Which of these keys were erased, of records of one stream; the offsets stand beside the keys.
select distinct k.place from unnest(%(keys)s::text[], %(offsets)s::bigint[]) with ordinality as k (key, "offset", place)
join lockstep.stream s on s.stream_id = %(stream_id)s
join lockstep.erasure_salt z on z.pipeline = %(pipeline)s
join lockstep.erasure e on e.pipeline = z.pipeline and e.column_name = %(column)s and e.as_uuid = %(as_uuid)s
    and e.digest = lockstep.key_digest(z.salt,
        convert_to(case when e.as_uuid then lower(translate(k.key, '{}-', '')) else k.key end, 'UTF8'))
join lockstep.erasure_bound b
    on b.erasure_id = e.erasure_id and b.topic_id = s.topic_id and b.partition = s.partition and k."offset" < b.until_offset

-- name: exists
-- Whether a table is there.
select to_regclass(%(table)s) is not null as does
