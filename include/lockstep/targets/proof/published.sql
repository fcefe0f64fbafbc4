-- name: digest_of_ranges
-- The digest and the number of the batch's rows in an appended target, found by their offsets.
select r.stream_id, coalesce(d.digest, 0) as digest, d.rows
from lockstep.batch_range r cross join lateral (
    select sum({row}) as digest, count(*) as rows from {target} t
    where t._stream = r.stream_id and t._batch = r.batch_id
      and t._offset >= coalesce(%(from_offset)s::bigint, lower(r.offsets))
      and t._offset < coalesce(%(until_offset)s::bigint, upper(r.offsets))) d
where r.batch_id = %(batch_id)s and (%(stream_id)s is null or r.stream_id = %(stream_id)s)

-- name: digest_of_part
-- The digest and the number of the rows of a part.
select coalesce(sum({row}), 0) as digest, count(*) as rows from {part} t

-- name: may_rewrite
-- A table with triggers or rules may hold other values than were inserted.
select c.relhasrules or exists (select from pg_trigger t where t.tgrelid = c.oid and not t.tgisinternal) as does
from pg_class c where c.oid = to_regclass(%(table)s)
