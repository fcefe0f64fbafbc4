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
        else 'link ' || w.number || ' does not fit ' || case when w.batch_id is null then 'decision ' || w.decision_id
            else 'the commit of batch ' || w.batch_id end end as what
    from (
        select l.*, coalesce(c.record, d.record) as record,
            lag(l.number, 1, 0::bigint) over pipeline as before, lag(l.digest, 1, '') over pipeline as previous
        from lockstep.link l
        left join lockstep.committed_record c using (batch_id, stream_id)
        left join lockstep.decided_record d using (decision_id)
        where l.pipeline = %(pipeline)s window pipeline as (order by l.number)) w
    left join lockstep.stream s using (stream_id)
    where w.number <> w.before + 1 or w.record is null
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
      and not exists (select from lockstep.unsealed u where u.decision_id = d.decision_id)) broken
order by number nulls last, what

-- name: links_of_batches
-- The links of some batches, each with the digest before it and its record.
select l.number, l.digest, c.record, coalesce((
    select p.digest from lockstep.link p where p.pipeline = l.pipeline and p.number = l.number - 1), '') as previous
from lockstep.link l join lockstep.committed_record c using (batch_id, stream_id)
where l.pipeline = %(pipeline)s and l.batch_id = any(%(batches)s) order by l.number

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
