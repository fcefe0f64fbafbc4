-- name: seal
-- Links what waits, at most so many records.
select lockstep.seal(%(pipeline)s, %(most)s) as links

-- name: head
-- The newest link, and how many records wait for theirs.
select (select count(*) from lockstep.unsealed where pipeline = %(pipeline)s) as waiting, l.number, l.digest
from (values (1)) always left join lateral (
    select number, digest from lockstep.link where pipeline = %(pipeline)s order by number desc limit 1) l on true

-- name: links_broken
-- Links that do not fit their record or the link before, and records that no link holds.
select topic, partition, what from (
    select w.number, s.topic, s.partition, case
        when w.number <> w.before + 1 then 'link ' || w.number || ' follows link ' || w.before
        when w.record is null then 'link ' || w.number || ' has lost its record'
        when w.is_of_another then 'link ' || w.number || ' is of request ' || w.request_id || ', which another pipeline made'
        else 'link ' || w.number || ' does not fit ' || case
            when w.decision_id is not null then 'decision ' || w.decision_id
            when w.request_id is not null then 'request ' || w.request_id
            when w.ledger_id is not null then 'the ledger'
            else 'the commit of batch ' || w.batch_id end end as what
    from (
        select l.*, coalesce(
                case l.form when 1 then (c.record::jsonb - 'ran')::text else c.record end, d.record, q.record, g.record) as record,
            q.pipeline <> l.pipeline as is_of_another,
            lag(l.number, 1, 0::bigint) over pipeline as before, lag(l.digest, 1, '') over pipeline as previous
        from lockstep.link l
        left join lockstep.committed_record c using (batch_id, stream_id)
        left join lockstep.decided_record d using (decision_id)
        left join lockstep.requested_record q using (request_id)
        left join lockstep.ledger_record g using (ledger_id)
        where l.pipeline = %(pipeline)s window pipeline as (order by l.number)) w
    left join lockstep.stream s using (stream_id)
    where w.number <> w.before + 1 or w.record is null or w.is_of_another
        or w.digest <> encode(sha256(convert_to(w.previous || e'\n' || w.record, 'UTF8')), 'hex')
    union all
    select null, s.topic, s.partition, 'batch ' || c.batch_id || ' is in no link'
    from lockstep.commit c join lockstep.batch b using (batch_id) join lockstep.stream s using (stream_id)
    where b.pipeline = %(pipeline)s
      and not exists (select from lockstep.link l where l.batch_id = c.batch_id and l.stream_id = c.stream_id)
      and not exists (select from lockstep.unsealed u where u.batch_id = c.batch_id and u.stream_id = c.stream_id)
    union all
    select null, null, null, 'decision ' || d.decision_id || ' is in no link'
    from lockstep.decision d
    where d.pipeline = %(pipeline)s
      and not exists (select from lockstep.link l where l.decision_id = d.decision_id)
      and not exists (select from lockstep.unsealed u where u.decision_id = d.decision_id)
    union all
    select null, null, null, 'request ' || q.request_id || ' is in no link'
    from lockstep.request q
    where q.pipeline = %(pipeline)s
      and not exists (select from lockstep.link l where l.request_id = q.request_id)
      and not exists (select from lockstep.unsealed u where u.request_id = q.request_id)
    union all
    select null, null, null, 'no link names the ledger'
    from lockstep.ledger g
    where not exists (select from lockstep.link l where l.pipeline = %(pipeline)s and l.ledger_id = g.ledger_id)
      and not exists (select from lockstep.unsealed u where u.pipeline = %(pipeline)s and u.ledger_id = g.ledger_id)) broken
order by number nulls last, what

-- name: links_of_batches
-- The links of some batches, each with the digest before it and its record.
select l.number, l.digest, case l.form when 1 then (c.record::jsonb - 'ran')::text else c.record end as record,
    coalesce((
    select p.digest from lockstep.link p where p.pipeline = l.pipeline and p.number = l.number - 1), '') as previous
from lockstep.link l join lockstep.committed_record c using (batch_id, stream_id)
where l.pipeline = %(pipeline)s and l.batch_id = any(%(batches)s) order by l.number

-- name: ledger_link
-- The link that names the ledger.
select l.number, l.digest, g.record, g.ledger_id::text as ledger_id, coalesce((
    select p.digest from lockstep.link p where p.pipeline = l.pipeline and p.number = l.number - 1), '') as previous
from lockstep.link l join lockstep.ledger_record g using (ledger_id) where l.pipeline = %(pipeline)s

-- name: ledger_id
-- The id of this ledger, drawn when it was migrated.
select ledger_id::text as ledger_id from lockstep.ledger

-- name: ranges_of_batch
-- How many ranges a batch has.
select count(*) as ranges from lockstep.batch_range where batch_id = %(batch_id)s

-- name: digests
-- The digests of some links.
select number, digest from lockstep.link where pipeline = %(pipeline)s and number = any(%(numbers)s)

-- name: stuck
-- What the next seal cannot link, and records that wait though many batches have been committed since the last link.
select null as topic, null as partition, what from (
    select 'decision ' || u.decision_id || ' waits for its link, and ' || case when l.number is null
        then 'is not a decision of the pipeline' else 'has one' end as what
    from lockstep.unsealed u left join lockstep.link l using (decision_id)
    where u.pipeline = %(pipeline)s and u.decision_id is not null and (l.number is not null or not exists (
        select from lockstep.decision d where d.decision_id = u.decision_id and d.pipeline = u.pipeline))
    union all
    select 'request ' || u.request_id || ' waits for its link, and ' || case when l.number is null
        then 'is not a request of the pipeline' else 'has one' end
    from lockstep.unsealed u left join lockstep.link l using (request_id)
    where u.pipeline = %(pipeline)s and u.request_id is not null and (l.number is not null or not exists (
        select from lockstep.request q where q.request_id = u.request_id and q.pipeline = u.pipeline))
    union all
    select 'ledger ' || u.ledger_id || ' waits for its link, and ' || case when l.number is null
        then 'is not this ledger' else 'has one' end
    from lockstep.unsealed u left join lockstep.link l on l.pipeline = u.pipeline and l.ledger_id = u.ledger_id
    where u.pipeline = %(pipeline)s and u.ledger_id is not null and (l.number is not null or not exists (
        select from lockstep.ledger g where g.ledger_id = u.ledger_id))
    union all
    select 'batch ' || u.batch_id || ' waits for its link, and ' || case when l.number is null
        then 'is not a committed batch of the pipeline' else 'has one' end
    from lockstep.unsealed u left join lockstep.link l on l.batch_id = u.batch_id and l.stream_id = u.stream_id
    where u.pipeline = %(pipeline)s and u.batch_id is not null and (l.number is not null or not exists (
        select from lockstep.commit c join lockstep.batch b using (batch_id)
        where c.batch_id = u.batch_id and c.stream_id = u.stream_id and b.pipeline = u.pipeline))
    union all
    select w.waiting || ' records wait for their link, and ' || c.closed || ' batches were committed since the last one' from (
        select count(*) as waiting from lockstep.unsealed where pipeline = %(pipeline)s) w
    cross join (select max(at) as at from lockstep.link where pipeline = %(pipeline)s) l
    cross join lateral (
        select count(*) as closed from lockstep.batch b
        where b.pipeline = %(pipeline)s and b.state = 'committed' and b.closed_at > l.at) c
    where w.waiting > 0 and c.closed >= %(most)s) s
order by what
