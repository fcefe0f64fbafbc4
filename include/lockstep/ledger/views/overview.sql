-- name: pipelines
-- What the ledger knows of each named pipeline: what was committed last, what is under way and who holds it.
select n.name, p.name is not null as recorded, coalesce(p.paused, false) as paused,
    p.forgotten_by is not null as forgotten,
    exists (select from lockstep.stream s where s.pipeline = n.name) as planned, t.streams, t.topic, t.topics,
    last.batch_id as last_batch, last.closed_at as last_at, work.work, asked.requests,
    coalesce(fed.feeds, '[]') as feeds,
    exists (select from lockstep.event_time e where e.pipeline = n.name) as has_windows, hours.until as complete_through,
    spark.heap_peak_bytes, spark.heap_limit_bytes, spark.gc_seconds
from unnest(%(names)s::text[]) n (name) left join lockstep.pipeline p on p.name = n.name
left join lateral (
    select count(*) as streams, min(topic) as topic, count(distinct topic) as topics from lockstep.stream s
    where s.pipeline = n.name and s.retired_at is null) t on true
left join lateral (
    select b.batch_id, b.closed_at, b.token from lockstep.batch b
    where b.pipeline = n.name and b.state = 'committed' order by b.batch_id desc limit 1) last on true
left join lockstep.spark_run spark on spark.batch_id = last.batch_id and spark.token = last.token
left join lateral (
    select coalesce(jsonb_agg(jsonb_build_object(
        'batch', b.batch_id, 'lane', b.lane, 'request', b.request_id, 'preview', coalesce(r.preview, false),
        'owner', case when l.of_attempt or not l.of_batch then coalesce(a.owner, b.owner) else b.owner end,
        'is_live', l.of_attempt or l.of_batch, 'failing', coalesce(a.state = 'failed' and a.fault = 'data', false))
        order by b.batch_id), '[]') as work
    from lockstep.batch b left join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token
    left join lockstep.request r on r.request_id = b.request_id
    cross join lateral (
        select coalesce(a.closed_at is null and a.lease_until > clock_timestamp(), false) as of_attempt,
            b.lease_until > clock_timestamp() as of_batch) l
    where b.pipeline = n.name and b.state = 'planned') work on true
left join lateral (
    select count(*) as requests from lockstep.request q where q.pipeline = n.name and q.closed_at is null) asked on true
left join lateral (
    select h.until from lockstep.complete_hour h where h.pipeline = n.name order by h.until desc limit 1) hours on true
left join (
    select o.pipeline, jsonb_agg(jsonb_build_object(
        'target', f.target, 'last_seq', f.last_seq, 'next_number', f.next_number, 'kept_from', f.kept_from,
        'topic', r.topic, 'confirmed', r.confirmed, 'behind', f.next_number - r.confirmed,
        'behind_seconds', case when r.confirmed is not null then coalesce((
            select round(extract(epoch from clock_timestamp() - c.at), 3) from lockstep.change_set c
            where c.target = f.target and c.changes > 0 and c.first_number + c.changes > r.confirmed
              and c.first_number >= coalesce((
                select max(p.first_number) from lockstep.change_set p
                where p.target = f.target and p.changes > 0 and p.first_number <= r.confirmed), 0)
            order by c.first_number limit 1), 0) end,
        'relay', case when r.held_until > clock_timestamp() then r.held_by end)
        order by f.target) as feeds
    from lockstep.feed f left join lockstep.relay r using (target) join lockstep.target_owner o on o.store = '' and o.target = f.target
    where o.pipeline = any(%(names)s::text[]) group by o.pipeline) fed on fed.pipeline = n.name
order by n.name

-- name: offsets_by_engine
-- The offsets that each pipeline's next batches after `behind` have committed, and those of `open`, by the engine that read
-- them. An open batch has rows of its own, as it may commit more. Replays count again, as they are read again. Attempts
-- before migration 0039 have no route. `tasks` was a route of Spark's until `spark` meant all of them.
with piece as (
    select n.name as pipeline, b.batch_id, b.state, true as is_new
    from unnest(%(names)s::text[], %(behind)s::bigint[]) n (name, behind)
    cross join lateral (
        select b.batch_id, b.state from lockstep.batch b where b.pipeline = n.name and b.batch_id > n.behind
        order by b.batch_id limit %(most)s) b
    union all
    select b.pipeline, b.batch_id, b.state, false from lockstep.batch b where b.batch_id = any(%(open)s::bigint[]))
select p.pipeline, case when p.state = 'planned' then p.batch_id end as open_batch,
    coalesce(case a.route ->> 'way' when 'tasks' then 'spark' else a.route ->> 'way' end, 'unknown') as engine,
    coalesce(sum(upper(r.offsets) - lower(r.offsets)), 0)::bigint as offsets,
    max(p.batch_id) filter (where p.is_new) as newest
from piece p left join lockstep.commit m using (batch_id) left join lockstep.batch_range r using (batch_id, stream_id)
left join lockstep.attempt a on a.batch_id = m.batch_id and a.token = m.token
group by 1, 2, 3

-- name: is_recorded
-- Whether a pipeline of this name was ever planned or decided about.
select exists (select from lockstep.pipeline where name = %(pipeline)s) as recorded

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
-- A pipeline's batches, the newest first, of one lane and state or of all, or only those whose records are rejects now.
select batch_id from lockstep.batch
where pipeline = %(pipeline)s and batch_id < coalesce(%(before)s, 9223372036854775807)
  and lane = coalesce(%(lane)s, lane) and state = coalesce(%(state)s, state)
  and (not %(rejects)s or batch_id in (
    select j.batch_id from lockstep.reject j join lockstep.stream s using (stream_id) where s.pipeline = %(pipeline)s))
order by batch_id desc limit %(most)s

-- name: history
-- What became of each batch: its counts over all ranges that are committed, how often it was tried, by which runs, and the
-- newest attempt's engine and application.
select b.batch_id, b.lane, b.state, b.planned_at, case when b.state = 'committed' then b.closed_at end as committed_at,
    extract(epoch from b.closed_at - b.planned_at)::float8 as seconds, w.written, w.rejected, t.attempts, t.runs, newest.engine, newest.application
from lockstep.batch b
cross join lateral (
    select coalesce(sum(r.written), 0)::bigint as written, coalesce(sum(r.rejected), 0)::bigint as rejected
    from lockstep.result r join lockstep.commit m using (batch_id, token, stream_id) where r.batch_id = b.batch_id) w
cross join lateral (
    select count(*) as attempts, coalesce(
        jsonb_agg(distinct jsonb_build_array(a.dag_id, a.dag_run_id)) filter (where a.dag_run_id is not null), '[]') as runs
    from lockstep.attempt a where a.batch_id = b.batch_id) t
left join lateral (
    select case a.route ->> 'way' when 'tasks' then 'spark' else a.route ->> 'way' end as engine, a.spark_application_id as application
    from lockstep.attempt a where a.batch_id = b.batch_id order by a.token desc limit 1) newest on true
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

-- name: ran_by
-- The DAGs that have tried batches of each named pipeline, and if anybody has.
select n.name, array(
        select distinct a.dag_id from lockstep.batch b join lockstep.attempt a using (batch_id)
        where b.pipeline = n.name and a.dag_id is not null) as dags,
    exists (select from lockstep.batch b join lockstep.attempt a using (batch_id) where b.pipeline = n.name) as tried
from unnest(%(names)s::text[]) n (name)

-- name: newest_definition
-- The definition of a pipeline's newest attempt.
select d.document from lockstep.attempt a join lockstep.definition d using (definition_hash)
where a.batch_id = (
    select b.batch_id from lockstep.batch b
    where b.pipeline = %(pipeline)s and exists (select from lockstep.attempt t where t.batch_id = b.batch_id)
    order by b.batch_id desc limit 1)
order by a.token desc limit 1
