-- name: progress
-- Where each open stream stands, and the newest timestamp of the last segment that delivered anything (T19).
select s.stream_id, s.cluster_id, s.topic, s.topic_id, s.partition, s.incarnation, s.epoch, s.start_offset, s.position,
    newest.max_timestamp as newest_timestamp
from lockstep.stream s left join lateral (
    select r.max_timestamp from lockstep.coverage c
    join lockstep.commit m on m.batch_id = c.batch_id and m.stream_id = c.stream_id
    join lockstep.result r on r.batch_id = m.batch_id and r.token = m.token and r.stream_id = m.stream_id
    where c.stream_id = s.stream_id and r.max_timestamp is not null
    order by lower(c.offsets) desc limit 1) newest on true
where s.pipeline = %(pipeline)s and s.retired_at is null order by s.topic, s.partition

-- name: sessions_staging
-- How many rows each session of this login has copied for a batch so far, as its statement says.
select a.pid, a.backend_start, substring(a.query from '^/\* (\d+) rows \*/')::bigint as rows
from pg_catalog.pg_stat_activity a
where a.datname = current_database() and a.usename = session_user and a.application_name like %(sessions)s
    and a.query ~ '^/\* \d+ rows \*/'

-- name: holes
-- What no batch covers of today's logs: never covered or skipped since log start, and every loss, with who decided it.
with log as (
    select s.stream_id, s.topic, s.partition, s.start_offset, o.stream_id as owner,
        int8range(least(greatest(coalesce(b.log_start, s.start_offset), lockstep.read_before(s.stream_id)), s.position),
            s.position) as readable
    from lockstep.stream s
    left join unnest(%(streams)s::int[], %(log_starts)s::bigint[]) as b (stream_id, log_start) on b.stream_id = s.stream_id
    -- a partition's growth leaves what was covered before it with an older stream of the same incarnation
    join lockstep.stream o on o.pipeline = s.pipeline and o.topic = s.topic
        and o.partition = s.partition and o.incarnation = s.incarnation
    where s.pipeline = %(pipeline)s and s.retired_at is null),
covered as (
    select l.stream_id, range_agg(c.offsets) as offsets
    from log l join lockstep.coverage c on c.stream_id = l.owner group by l.stream_id),
decided as (
    select l.stream_id, l.owner, l.readable, c.offsets, c.kind
    from log l join lockstep.coverage c on c.stream_id = l.owner where c.kind <> 'batch'),
hole as (
    select l.stream_id, null as owner, unnest(int8multirange(l.readable) - coalesce(c.offsets, '{}')) as offsets, 'uncovered' as kind
    from (select distinct stream_id, readable from log) l left join covered c using (stream_id)
    union all
    select stream_id, owner, unnest(range_agg(offsets) * int8multirange(readable)), kind
    from decided where kind = 'skipped' group by stream_id, owner, readable, kind
    union all
    select stream_id, owner, offsets, kind from decided where kind = 'loss')
select h.stream_id, s.topic, s.partition, lower(h.offsets) as from_offset, upper(h.offsets) as until_offset, h.kind,
    case when h.kind = 'uncovered' and upper(h.offsets) <= s.start_offset then 'before the start'
         else (
            select d.who || case when d.os_user <> d.who
                    then format(' (%%s, login %%s%%s)', d.os_user, d.login, ' from ' || host(d.client)) else '' end || ': ' || d.why
            from lockstep.decision d
            where d.pipeline = s.pipeline and d.kind = case h.kind when 'loss' then 'accept-loss' when 'skipped' then 'skip' end
              and (d.detail ->> 'stream_id')::int = h.owner
              and (d.detail ->> 'from_offset')::bigint < upper(h.offsets) and (d.detail ->> 'until_offset')::bigint > lower(h.offsets)
            order by d.decision_id desc limit 1) end as why
from hole h join lockstep.stream s using (stream_id) order by s.topic, s.partition, from_offset

-- name: batch_ids
-- A pipeline's newest batches; all of them where no number is given.
select batch_id from lockstep.batch where pipeline = %(pipeline)s order by batch_id desc limit %(last)s

-- name: batches
-- What became of each batch, with the keys that stand for it and how often it was tried.
select b.batch_id, b.pipeline, b.lane, b.state, b.planned_at, b.closed_at,
    case when b.state = 'committed' then b.closed_at end as committed_at,
    array(select k.key from lockstep.call k where k.batch_id = b.batch_id order by k.at, k.key) as keys,
    (select count(*) from lockstep.attempt a where a.batch_id = b.batch_id) as attempts,
    array(select distinct a.dag_run_id from lockstep.attempt a
          where a.batch_id = b.batch_id and a.dag_run_id is not null order by 1) as dag_run_ids,
    (select case a.route ->> 'way' when 'tasks' then 'spark' else a.route ->> 'way' end  -- `tasks` was a route of Spark's
     from lockstep.attempt a where a.batch_id = b.batch_id order by a.token desc limit 1) as engine
from lockstep.batch b where b.batch_id = any(%(batches)s::bigint[]) order by b.batch_id

-- name: ranges
-- What each batch was planned to read, and what was made of it by the attempt that committed it, none where nobody has.
select r.batch_id, s.topic, s.partition, lower(r.offsets) as from_offset, upper(r.offsets) as until_offset,
    t.delivered, t.written, t.rejected, t.filtered, m.token as attempt
from lockstep.batch_range r join lockstep.stream s using (stream_id)
left join lockstep.commit m on m.batch_id = r.batch_id and m.stream_id = r.stream_id
left join lockstep.result t on t.batch_id = m.batch_id and t.token = m.token and t.stream_id = m.stream_id
where r.batch_id = any(%(batches)s::bigint[]) order by r.batch_id, s.topic, s.partition, s.stream_id

-- name: attempts
-- Every try at a batch, the oldest first.
select token, owner, state, lease_until, dag_id, dag_run_id, task_instance_id, try_number, task_id, map_index, route, spark_application_id, spark_ui,
    spark_event_log, definition_hash, opened_at, staged_at, validated_at, closed_at, error, fault, effect
from lockstep.attempt where batch_id = %(batch_id)s order by token

-- name: delivery
-- Whether a batch's results move apart from its offsets, and when the store has confirmed them.
select lockstep.guarantee_of(b.batch_id, b.token) as guarantee, y.at as delivered_at
from lockstep.batch b left join lockstep.delivery y using (batch_id) where b.batch_id = %(batch_id)s

-- name: verdict
-- What validation last said of a batch.
select token, suite, success, result, at from lockstep.verdict where batch_id = %(batch_id)s order by token desc limit 1

-- name: rejects
-- Rejects with what fits a preview of their bytes, by partition and offset, with the batch that owns each now.
select s.topic, s.partition, s.incarnation, j."offset", j.batch_id as batch, j.timestamp, j.reason,
    substring(j.key for %(bytes)s) as key, octet_length(j.key) as key_bytes,
    substring(j.value for %(bytes)s) as value, octet_length(j.value) as value_bytes
from lockstep.reject j join lockstep.stream s using (stream_id)
where s.pipeline = %(pipeline)s and s.topic = coalesce(%(topic)s, s.topic) and s.partition = coalesce(%(partition)s, s.partition)
  and j.batch_id = coalesce(%(batch)s, j.batch_id)
order by s.topic, s.partition, s.incarnation, j."offset" limit %(limit)s

-- name: reject_reasons
-- How many records were refused for which reason, the most frequent first; an expectation's are one, whatever it has seen.
select regexp_replace(j.reason, '^(expectation [a-z0-9_]+\([^)]*\)): .*$', '\1') as reason, count(*) as count
from lockstep.reject j join lockstep.stream s using (stream_id)
where s.pipeline = %(pipeline)s and s.topic = coalesce(%(topic)s, s.topic) and s.partition = coalesce(%(partition)s, s.partition)
  and j.batch_id = coalesce(%(batch)s, j.batch_id)
group by 1 order by count(*) desc, 1
