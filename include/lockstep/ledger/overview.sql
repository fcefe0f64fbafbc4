-- name: pipelines
-- Every pipeline that was ever planned, with what was committed last and what is under way.
select p.name, p.paused, t.streams, t.topic, last.batch_id as last_batch, last.closed_at as last_at, work.unfinished,
    work.failing, asked.requests, hours.until as complete_through
from lockstep.pipeline p
left join lateral (
    select count(*) as streams, min(topic) as topic from lockstep.stream s
    where s.pipeline = p.name and s.retired_at is null) t on true
left join lateral (
    select b.batch_id, b.closed_at from lockstep.batch b
    where b.pipeline = p.name and b.state = 'committed' order by b.batch_id desc limit 1) last on true
left join lateral (
    select count(*) as unfinished, count(*) filter (where a.state = 'failed' and a.fault = 'data') as failing
    from lockstep.batch b left join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token
    where b.pipeline = p.name and b.state = 'planned') work on true
left join lateral (
    select count(*) as requests from lockstep.request q where q.pipeline = p.name and q.closed_at is null) asked on true
left join lateral (
    select h.until from lockstep.complete_hour h where h.pipeline = p.name order by h.until desc limit 1) hours on true
where p.name = any(%(names)s) order by p.name

-- name: count_rejects
-- How many records of a pipeline are rejects now.
select count(*) as rejects from lockstep.reject join lockstep.stream using (stream_id) where pipeline = %(pipeline)s

-- name: recent
-- What the newest batches have written, and when, for a rate and its picture.
select b.pipeline, b.batch_id, b.closed_at, w.written
from unnest(%(names)s::text[]) p (name)
cross join lateral (
    select b.pipeline, b.batch_id, b.closed_at, b.token from lockstep.batch b
    where b.pipeline = p.name and b.state = 'committed' order by b.batch_id desc limit %(most)s) b
cross join lateral (
    select coalesce(sum(t.written), 0)::bigint as written from lockstep.result t
    join lockstep.commit m using (batch_id, token, stream_id) where t.batch_id = b.batch_id) w
order by b.pipeline, b.batch_id

-- name: batches_before
-- A pipeline's batches, the newest first, of one lane or of all.
select batch_id from lockstep.batch
where pipeline = %(pipeline)s and batch_id < coalesce(%(before)s, 9223372036854775807) and lane = coalesce(%(lane)s, lane)
order by batch_id desc limit %(most)s

-- name: history
-- What became of each batch: its counts over all ranges that are committed, how often it was tried, and by which runs.
select b.batch_id, b.lane, b.state, b.planned_at, case when b.state = 'committed' then b.closed_at end as committed_at,
    w.written, w.rejected, t.attempts, t.runs
from lockstep.batch b
cross join lateral (
    select coalesce(sum(r.written), 0)::bigint as written, coalesce(sum(r.rejected), 0)::bigint as rejected
    from lockstep.result r join lockstep.commit m using (batch_id, token, stream_id) where r.batch_id = b.batch_id) w
cross join lateral (
    select count(*) as attempts, coalesce(
        jsonb_agg(distinct jsonb_build_array(a.dag_id, a.dag_run_id)) filter (where a.dag_run_id is not null), '[]') as runs
    from lockstep.attempt a where a.batch_id = b.batch_id) t
where b.batch_id = any(%(batches)s::bigint[]) order by b.batch_id desc

-- name: batches_of_run
-- Every batch that a DAG run has tried, the newest first: a run of a history has many. Rehearsals are none of them.
select distinct a.batch_id from lockstep.attempt a join lockstep.batch b using (batch_id)
left join lockstep.request r using (request_id)
where b.pipeline = %(pipeline)s and a.dag_id = %(dag_id)s and a.dag_run_id = %(run_id)s and r.preview is not true
order by a.batch_id desc

-- name: batch_of_run
-- The newest batch that a DAG run has tried, or that its key stands for.
select max(batch_id) as batch_id from (
    select batch_id from lockstep.call where pipeline = %(pipeline)s and key = %(run_id)s
    union all
    select b.batch_id from lockstep.batch b join lockstep.attempt a using (batch_id)
    where b.pipeline = %(pipeline)s and b.owner = %(owner)s and a.dag_run_id = %(run_id)s and b.state = 'planned') tried

-- name: newest_definition
-- The definition of a pipeline's newest attempt.
select d.document from lockstep.attempt a join lockstep.definition d using (definition_hash)
where a.batch_id = (
    select b.batch_id from lockstep.batch b
    where b.pipeline = %(pipeline)s and exists (select from lockstep.attempt t where t.batch_id = b.batch_id)
    order by b.batch_id desc limit 1)
order by a.token desc limit 1
