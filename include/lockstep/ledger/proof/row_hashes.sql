-- name: kept
-- The hashes that decisions keep of a target's segments, the oldest decision first.
select d.decision_id, s.batch as batch_id, s.stream as stream_id, s.erasure, s.sha256
from lockstep.decision d cross join lateral jsonb_to_recordset(d.detail -> 'segments')
    s (batch bigint, stream int, erasure bigint, sha256 text)
where d.pipeline = %(pipeline)s and d.kind = 'hash-rows' and d.detail ->> 'target' = %(target)s
order by d.decision_id

-- name: hashed
-- The SHA-256 of each segment's rows, in the order of their offsets. Only batches with these columns are looked at.
-- Blocks of offsets are hashed first, so that a segment of any size fits.
with its as (select distinct batch_id from lockstep.content where shape_id = %(shape_id)s and place = %(place)s),
block as (
    select t._batch as batch_id, t._stream as stream_id, t._offset / 4096 as block, count(*) as rows,
        sha256(string_agg(r.sha, ''::bytea order by t._offset, t._ordinal, r.sha)) as sha
    from {target} t join its on its.batch_id = t._batch
    cross join lateral (select sha256(convert_to({row}::text, 'UTF8')) as sha) r group by 1, 2, 3),
found as (
    select batch_id, stream_id, sum(rows)::int8 as rows, sha256(string_agg(sha, ''::bytea order by block)) as sha
    from block group by 1, 2),
gone as (
    select x.batch_id, x.stream_id, max(x.erasure_id) as erasure
    from lockstep.erased x where x.relation = %(target)s group by 1, 2)
select s.topic, s.partition, g.batch_id, g.stream_id, coalesce(x.erasure, 0) as erasure, coalesce(f.rows, 0) as rows,
    encode(coalesce(f.sha, sha256('')), 'hex') as sha256
from lockstep.segment g join lockstep.stream s using (stream_id) join lockstep.content c using (batch_id, stream_id)
left join found f using (batch_id, stream_id) left join gone x using (batch_id, stream_id)
where s.pipeline = %(pipeline)s and c.shape_id = %(shape_id)s and c.place = %(place)s
  and not exists (
    select from lockstep.trimmed m where m.target = %(target)s and m.stream_id = g.stream_id and m.offsets && g.offsets)
order by g.batch_id, s.partition, s.stream_id

-- name: hashed_of_batches
-- The same of some batches, whose rows are found by their offsets.
select s.topic, s.partition, g.batch_id, g.stream_id, coalesce(x.erasure, 0) as erasure, coalesce(f.rows, 0) as rows,
    encode(coalesce(f.sha, sha256('')), 'hex') as sha256
from lockstep.segment g join lockstep.stream s using (stream_id) join lockstep.content c using (batch_id, stream_id)
cross join lateral (
    select sum(b.rows)::int8 as rows, sha256(string_agg(b.sha, ''::bytea order by b.block)) as sha from (
        select t._offset / 4096 as block, count(*) as rows,
            sha256(string_agg(r.sha, ''::bytea order by t._offset, t._ordinal, r.sha)) as sha
        from {target} t cross join lateral (select sha256(convert_to({row}::text, 'UTF8')) as sha) r
        where t._stream = g.stream_id and t._offset >= lower(g.offsets) and t._offset < upper(g.offsets)
            and t._batch = g.batch_id group by 1) b) f
left join (
    select x.batch_id, x.stream_id, max(x.erasure_id) as erasure from lockstep.erased x where x.relation = %(target)s group by 1, 2) x
    on x.batch_id = g.batch_id and x.stream_id = g.stream_id
where s.pipeline = %(pipeline)s and c.shape_id = %(shape_id)s and c.place = %(place)s and g.batch_id = any(%(batches)s::bigint[])
  and not exists (
    select from lockstep.trimmed m where m.target = %(target)s and m.stream_id = g.stream_id and m.offsets && g.offsets)
order by g.batch_id, s.partition, s.stream_id

-- name: settings
-- Moments and intervals have one text, whatever the login has set.
select set_config('datestyle', 'ISO, YMD', true), set_config('intervalstyle', 'postgres', true)

-- name: links
-- The links of decisions that keep hashes of these batches, each with the digest before it and its record.
select l.number, l.digest, d.record, coalesce((
    select p.digest from lockstep.link p where p.pipeline = l.pipeline and p.number = l.number - 1), '') as previous
from lockstep.link l join lockstep.decided_record d using (decision_id) join lockstep.decision k using (decision_id)
where l.pipeline = %(pipeline)s and k.kind = 'hash-rows'
  and exists (
    select from jsonb_to_recordset(k.detail -> 'segments') s (batch bigint) where s.batch = any(%(batches)s))
order by l.number
