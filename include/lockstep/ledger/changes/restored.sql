-- name: unknown
-- Which of these a store holds and the ledger does not know: no such batch on these offsets, or no such attempt.
select s.stream_id, s.from_offset, s.until_offset, s.batch_id, s.token
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[], %(batches)s::bigint[], %(tokens)s::bigint[])
    as s (stream_id, from_offset, until_offset, batch_id, token)
where not exists (
        select 1 from lockstep.batch_range r
        where r.batch_id = s.batch_id and r.stream_id = s.stream_id and r.offsets @> int8range(s.from_offset, s.until_offset))
   or s.token is not null and not exists (
        select 1 from lockstep.attempt a where a.batch_id = s.batch_id and a.token = s.token)
order by 1, 2, 4

-- name: of_others
-- Streams of other pipelines, which may share a store.
select stream_id from lockstep.stream where pipeline <> %(pipeline)s

-- name: knows_attempt
-- Whether this ledger has opened the attempt.
select exists (select 1 from lockstep.attempt where batch_id = %(batch_id)s and token = %(token)s) as yes

-- name: pass_over
-- What is drawn from now on lies past all of these.
select lockstep.pass_over(%(token)s, %(batch)s, %(stream)s)
