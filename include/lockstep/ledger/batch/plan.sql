-- name: called_batch
-- The batch that a caller's key stands for, unless it was abandoned.
select b.batch_id, b.state from lockstep.call k join lockstep.batch b using (batch_id)
where k.pipeline = %(pipeline)s and k.key = %(key)s and b.state <> 'abandoned'
order by b.batch_id desc limit 1

-- name: unfinished
-- The batches of every lane that are planned and neither committed nor abandoned, with whoever holds each of them now.
select b.batch_id, b.lane, b.request_id, coalesce(r.preview, false) as preview,
    case when a.is_live or not b.is_live then coalesce(a.owner, b.owner) else b.owner end as owner,
    coalesce(a.is_live, false) or b.is_live as lease_is_live,
    greatest(a.lease_until, b.lease_until) as lease_until,
    exists (select 1 from lockstep.call k where k.batch_id = b.batch_id and k.key = %(key)s) as is_callers
from (select *, lease_until > clock_timestamp() as is_live from lockstep.batch) b
left join lockstep.request r on r.request_id = b.request_id
left join (select *, closed_at is null and lease_until > clock_timestamp() as is_live from lockstep.attempt) a
    on a.batch_id = b.batch_id and a.token = b.token
where b.pipeline = %(pipeline)s and b.state = 'planned' order by b.batch_id

-- name: uncommitted_ranges
-- What a batch still has to read.
select s.stream_id, s.topic, s.topic_id, s.cluster_id, s.partition, lower(r.offsets) as from_offset, upper(r.offsets) as until_offset
from lockstep.batch_range r join lockstep.stream s using (stream_id)
where r.batch_id = %(batch_id)s
  and not exists (select 1 from lockstep.commit c where c.batch_id = r.batch_id and c.stream_id = r.stream_id)
order by s.stream_id

-- name: planned_ranges
-- All that a batch reads, whether it is committed or not.
select s.stream_id, s.topic, s.partition, lower(r.offsets) as from_offset, upper(r.offsets) as until_offset
from lockstep.batch_range r join lockstep.stream s using (stream_id) where r.batch_id = %(batch_id)s

-- name: insert_batch
-- A batch is written down; whoever planned it takes the lease next. A live one is judged by the watermark of now.
insert into lockstep.batch (pipeline, lane, request_id, owner, lease_until, watermark)
values (%(pipeline)s, %(lane)s, %(request_id)s, %(owner)s, clock_timestamp(), (
    select e.watermark from lockstep.event_time e where e.pipeline = %(pipeline)s and %(lane)s = 'live'))
returning batch_id

-- name: insert_ranges
-- The batch's ranges, all in one statement.
insert into lockstep.batch_range (batch_id, stream_id, offsets)
select %(batch_id)s, r.stream_id, int8range(r.from_offset, r.until_offset)
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) as r (stream_id, from_offset, until_offset)
order by r.stream_id

-- name: claim_ranges
-- A live batch claims what it will read, where its stream still stands at the range's beginning and nothing is covered.
insert into lockstep.claim (stream_id, offsets, batch_id, expects)
select r.stream_id, r.offsets, r.batch_id, 'nothing'
from lockstep.batch_range r join lockstep.stream s using (stream_id)
where r.batch_id = %(batch_id)s and s.position = lower(r.offsets) and s.retired_at is null
order by r.stream_id

-- name: surprised_claims
-- The second look (T4): claims of a batch that do not find what they expect.
select k.stream_id, k.offsets from lockstep.claim k left join lateral (
    -- coverage never overlaps: what lies under the claim's end is the last row that begins below it
    select c.offsets, c.kind, c.batch_id from lockstep.coverage c
    where c.stream_id = k.stream_id and lower(c.offsets) < upper(k.offsets) order by lower(c.offsets) desc limit 1) c
  on c.offsets && k.offsets
where k.batch_id = %(batch_id)s and not case k.expects
    when 'nothing' then c.offsets is null
    else coalesce(c.offsets @> k.offsets and c.kind = k.expects and c.batch_id is not distinct from k.expects_batch
        and (c.kind = 'skipped' or c.offsets = k.offsets), false) end

-- name: insert_call
-- The caller's key stands for this batch from now on.
insert into lockstep.call (pipeline, key, batch_id) values (%(pipeline)s, %(key)s, %(batch_id)s) on conflict do nothing

-- name: take_lease
-- Whoever plans or resumes a batch is its owner until an attempt is opened; it may take longer each time it is taken over.
update lockstep.batch b set owner = %(owner)s, lease_until = clock_timestamp() + make_interval(secs => %(lease)s * 2 ^ least(
    %(doublings)s, (select count(*) from lockstep.attempt a where a.batch_id = b.batch_id)))
where b.batch_id = %(batch_id)s and b.state = 'planned'

-- name: recent_pace
-- How fast and how large the last committed batches were, for limits in seconds and bytes.
select sum(r.delivered) as records, sum(r.bytes) as bytes, sum(u.span) as span,
    extract(epoch from a.closed_at - a.opened_at)::float as seconds
from lockstep.batch b
join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token
join lockstep.result r on r.batch_id = a.batch_id and r.token = a.token
join lateral (select upper(g.offsets) - lower(g.offsets) as span from lockstep.batch_range g
              where g.batch_id = r.batch_id and g.stream_id = r.stream_id) u on true
where b.batch_id in (
    select batch_id from lockstep.batch where pipeline = %(pipeline)s and state = 'committed'
    order by batch_id desc limit 5)
group by b.batch_id, a.opened_at, a.closed_at

-- name: data_failures
-- How often a batch failed by data or code under one definition, and the last reason.
select count(*) as times, split_part(max(error) filter (where newest), e'\n', 1) as error
from (select error, token = max(token) over () as newest from lockstep.attempt
      where batch_id = %(batch_id)s and fault = 'data' and definition_hash = %(definition_hash)s) failed

-- name: last_definition
-- The definition of the newest committed attempt of a pipeline: what its target and topic have been so far. A move since then
-- has decided about the topic.
select d.document || coalesce((
    select jsonb_build_object('topic', m.detail #> '{to,topic}') from lockstep.decision m
    where m.pipeline = b.pipeline and m.kind = 'move' and m.at > b.closed_at order by m.decision_id desc limit 1), '{}') as document
from lockstep.batch b
join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token
join lockstep.definition d using (definition_hash)
where b.batch_id = (
    select batch_id from lockstep.batch where pipeline = %(pipeline)s and state = 'committed' order by batch_id desc limit 1)

-- name: batch_definition
-- The definition of a batch's newest attempt, if it ever had one.
select d.document from lockstep.attempt a join lockstep.definition d using (definition_hash)
where a.batch_id = %(batch_id)s order by a.token desc limit 1

-- name: pause_reason
-- Who paused the pipeline, and why.
select who, why from lockstep.decision where pipeline = %(pipeline)s and kind = 'pause' order by decision_id desc limit 1
