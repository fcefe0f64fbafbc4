-- name: coverage_not_contiguous
-- Coverage tiles every stream from its start to its position.
select s.topic, s.partition, 'offsets ' || (int8multirange(int8range(s.start_offset, s.position))
    - coalesce(range_agg(c.offsets), int8multirange()))::text || ' are below the position and not covered' as what
from lockstep.stream s left join lockstep.coverage c using (stream_id)
where s.pipeline = %(pipeline)s and s.position > s.start_offset
group by s.stream_id
having not coalesce(range_agg(c.offsets), int8multirange()) @> int8range(s.start_offset, s.position)
order by s.partition, s.stream_id

-- name: coverage_past_position
-- Nothing is covered that the position has not passed.
select s.topic, s.partition, 'coverage ' || c.offsets || ' reaches past the position ' || s.position as what
from lockstep.stream s join lockstep.coverage c using (stream_id)
where s.pipeline = %(pipeline)s and upper(c.offsets) > s.position order by s.partition, c.offsets

-- name: coverage_not_committed
-- Batches cover what they have committed, no less and no more, and a row of coverage names a batch that owns some of it.
with owned as (select stream_id, range_agg(offsets) as offsets from lockstep.segment group by stream_id),
covered as (select stream_id, range_agg(offsets) as offsets from lockstep.coverage where kind = 'batch' group by stream_id)
select s.topic, s.partition, 'batches cover ' || coalesce(c.offsets, int8multirange())::text || ' and have committed '
    || coalesce(o.offsets, int8multirange())::text as what
from lockstep.stream s left join owned o using (stream_id) left join covered c using (stream_id)
where s.pipeline = %(pipeline)s and coalesce(o.offsets, int8multirange()) <> coalesce(c.offsets, int8multirange())
union all
select s.topic, s.partition, 'coverage ' || c.offsets || ' names batch ' || c.batch_id || ', which owns nothing there'
from lockstep.coverage c join lockstep.stream s using (stream_id) left join lockstep.segment g using (stream_id, batch_id)
where s.pipeline = %(pipeline)s and c.kind = 'batch' and not coalesce(g.offsets <@ c.offsets, false)
order by 2, 3

-- name: claims_of_closed_batches
-- Only unfinished batches claim offsets.
select s.topic, s.partition, 'batch ' || b.batch_id || ' is ' || b.state || ' and still claims ' || k.offsets as what
from lockstep.claim k join lockstep.batch b using (batch_id) join lockstep.stream s using (stream_id)
where s.pipeline = %(pipeline)s and b.state <> 'planned' order by s.partition, k.offsets

-- name: commits_not_by_newest
-- A batch was committed by its newest attempt; a range that a task committed, by the attempt that was newest then.
select s.topic, s.partition, 'batch ' || c.batch_id || ' was committed by attempt ' || c.token
    || ', and attempt ' || a.token || ' is newer' as what
from lockstep.commit c join lockstep.stream s using (stream_id)
join lockstep.attempt m on m.batch_id = c.batch_id and m.token = c.token
join lockstep.attempt a on a.batch_id = c.batch_id and a.token > c.token and (m.unit = 'batch' or a.opened_at < c.at)
where s.pipeline = %(pipeline)s order by c.batch_id, s.partition

-- name: commits_not_whole
-- A committed batch has a commit row for each of its ranges, another one has none that an attempt at the whole wrote.
select s.topic, s.partition, 'batch ' || b.batch_id || ' is ' || b.state || ', its range ' || r.offsets
    || case when c.token is null then ' has no commit row' else ' has one' end as what
from lockstep.batch b join lockstep.batch_range r using (batch_id) join lockstep.stream s using (stream_id)
left join lockstep.commit c using (batch_id, stream_id)
left join lockstep.attempt m on m.batch_id = c.batch_id and m.token = c.token
where b.pipeline = %(pipeline)s
  and case when b.state = 'committed' then c.token is null else coalesce(m.unit = 'batch', false) end order by b.batch_id, s.partition

-- name: counts_not_reconciled
-- delivered = written + filtered + rejected, and the manifests add up to it: what was quarantined they call written.
select s.topic, s.partition, 'batch ' || u.batch_id || ': ' || u.delivered || ' delivered, the manifests say '
    || coalesce(m.delivered, 0) as what
from lockstep.commit c join lockstep.result u using (batch_id, token, stream_id) join lockstep.stream s using (stream_id)
left join (select batch_id, token, stream_id, sum(delivered) as delivered, sum(written) as written, sum(rejected) as rejected
           from lockstep.manifest group by 1, 2, 3) m using (batch_id, token, stream_id)
where s.pipeline = %(pipeline)s and (
    u.delivered <> u.written + u.filtered + u.rejected
    or (u.delivered, u.written + u.quarantined, u.rejected - u.quarantined) <> (coalesce(m.delivered, 0), coalesce(m.written, 0), coalesce(m.rejected, 0)))
order by u.batch_id, s.partition

-- name: rejects_not_counted
-- Every batch has as many rejects as it recorded.
select s.topic, s.partition, u.batch_id, 'batch ' || u.batch_id || ': ' || u.rejected || ' rejects recorded, '
    || count(j."offset") || ' are there' as what
from lockstep.segment v
join lockstep.result u using (batch_id, token, stream_id) join lockstep.stream s using (stream_id)
left join lockstep.reject j on j.stream_id = u.stream_id and j.batch_id = u.batch_id
where s.pipeline = %(pipeline)s group by s.stream_id, u.batch_id, u.rejected having count(j."offset") <> u.rejected
order by u.batch_id, s.partition

-- name: rows_not_counted
-- Every batch has as many rows in an appended target as it recorded.
select s.topic, s.partition, u.batch_id, 'batch ' || u.batch_id || ': ' || coalesce(p.rows, u.rows) || ' rows recorded, '
    || case when x.rows > 0 then x.rows || ' erased, ' else '' end || coalesce(t.rows, 0) || ' are in the target' as what
from lockstep.segment v
join lockstep.result u using (batch_id, token, stream_id) join lockstep.stream s using (stream_id)
left join (select _batch, _stream, count(*) as rows from {target} group by 1, 2) t
    on t._batch = u.batch_id and t._stream = u.stream_id
left join lockstep.target_rows p
    on p.batch_id = u.batch_id and p.token = u.token and p.stream_id = u.stream_id and p.target = %(target)s
left join (select batch_id, stream_id, sum(rows) as rows from lockstep.erased where relation = %(target)s group by 1, 2) x
    on x.batch_id = u.batch_id and x.stream_id = u.stream_id
where s.pipeline = %(pipeline)s and coalesce(p.rows, u.rows) <> coalesce(t.rows, 0) + coalesce(x.rows, 0)
  and not exists (
    select from lockstep.trimmed m where m.target = %(target)s and m.stream_id = v.stream_id and m.offsets && v.offsets)
order by u.batch_id, s.partition

-- name: rows_not_covered
-- Every row of the target answers for itself: its batch owns its offset. A row of no stream was put in by hand.
select s.topic, s.partition, case when s.stream_id is null
    then 'a row of stream ' || coalesce(t._stream::text, 'null') || ' offset ' || coalesce(t._offset::text, 'null')
        || ' is of no stream that the ledger knows'
    else 'a row of offset ' || coalesce(t._offset::text, 'null') || ' names batch ' || coalesce(t._batch::text, 'null')
        || ', which does not own it' end as what
from {target} t left join lockstep.stream s on s.stream_id = t._stream
left join lockstep.segment g on g.stream_id = t._stream and g.batch_id = t._batch
where (s.pipeline = %(pipeline)s or s.stream_id is null) and not coalesce(g.offsets @> t._offset, false)
  -- a partition that was attached behind this snapshot shows its rows, and its batch is not committed yet
  and not (lockstep.is_by_batch(to_regclass(%(table)s)) and coalesce(
    (select b.state = 'planned' from lockstep.batch b where b.batch_id = t._batch),
    t._batch > (select max(batch_id) from lockstep.batch)))
order by s.partition, t._offset

-- name: rows_not_counted_since
-- Each of these batches has as many rows in an appended target as it recorded, counted at the offsets that it owns.
select s.topic, s.partition, u.batch_id, 'batch ' || u.batch_id || ': ' || coalesce(p.rows, u.rows) || ' rows recorded, '
    || case when x.rows > 0 then x.rows || ' erased, ' else '' end || t.rows || ' are in the target' as what
from lockstep.segment v
join lockstep.result u using (batch_id, token, stream_id) join lockstep.stream s using (stream_id)
cross join lateral (
    select count(*) as rows from {target} t
    where t._stream = v.stream_id and t._offset >= lower(v.offsets) and t._offset < upper(v.offsets) and t._batch = v.batch_id) t
left join lockstep.target_rows p
    on p.batch_id = u.batch_id and p.token = u.token and p.stream_id = u.stream_id and p.target = %(target)s
left join (select batch_id, stream_id, sum(rows) as rows from lockstep.erased where relation = %(target)s group by 1, 2) x
    on x.batch_id = u.batch_id and x.stream_id = u.stream_id
where s.pipeline = %(pipeline)s and v.batch_id = any(%(batches)s::bigint[])
  and coalesce(p.rows, u.rows) <> t.rows + coalesce(x.rows, 0)
  and not exists (
    select from lockstep.trimmed m where m.target = %(target)s and m.stream_id = v.stream_id and m.offsets && v.offsets)
order by u.batch_id, s.partition

-- name: rows_not_owned_since
-- Every row at the offsets of these batches names its batch.
select s.topic, s.partition, 'a row of offset ' || t._offset || ' names batch ' || coalesce(t._batch::text, 'null')
    || ', which does not own it' as what
from lockstep.segment v join lockstep.stream s using (stream_id)
join {target} t on t._stream = v.stream_id and t._offset >= lower(v.offsets) and t._offset < upper(v.offsets)
where s.pipeline = %(pipeline)s and v.batch_id = any(%(batches)s::bigint[]) and t._batch is distinct from v.batch_id
order by s.partition, t._offset

-- name: rows_of_others
-- Rows of a target that another pipeline wrote: verify of that one looks at them.
select s.pipeline, count(*) as rows from {target} t join lockstep.stream s on s.stream_id = t._stream
where s.pipeline <> %(pipeline)s group by 1 order by 1

-- name: keys_counted
-- How many rows the commits of every pipeline have left in an upserted target, and how many are there.
with did as (
    select case when a.effect ? %(target)s then a.effect -> %(target)s else a.effect end as effect
    from lockstep.attempt a join lockstep.definition d using (definition_hash)
    where a.state = 'committed'
      and jsonb_path_exists(d.document, '$.target[*].table ? (@ == $table)', jsonb_build_object('table', %(target)s::text)))
select count(*) as commits, count(*) filter (where not coalesce(effect ? 'inserted', false)) as unknown,
    coalesce(sum(coalesce((effect ->> 'inserted')::bigint, 0) - coalesce((effect ->> 'deleted')::bigint, 0)
        - coalesce((effect ->> 'withdrawn')::bigint, 0)), 0)::bigint
        - (select coalesce(sum(x.rows), 0) from lockstep.erased x where x.relation = %(target)s)::bigint
        + (select coalesce(sum((d.detail ->> 'rows')::bigint), 0) from lockstep.decision d
           where d.kind = 'recount' and d.detail ->> 'target' = %(target)s)::bigint as expected,
    (select count(*) from {target}) as found
from did

-- name: first_wrong
-- The first things that a check finds, with how many there are.
select w.*, count(*) over () as wrong from ({query}) w limit %(first)s

-- name: batches_at
-- The batches that own these offsets today.
select distinct g.batch_id from unnest(%(streams)s::int[], %(offsets)s::bigint[]) as p (stream_id, "offset")
join lockstep.segment g on g.stream_id = p.stream_id and g.offsets @> p."offset" order by 1

-- name: committed_definitions
-- The definitions under which a pipeline has committed.
select d.definition_hash, d.document from lockstep.definition d
where d.definition_hash in (
    select a.definition_hash from lockstep.attempt a join lockstep.batch b using (batch_id)
    where b.pipeline = %(pipeline)s and a.state = 'committed')

-- name: verified_streams
-- The streams of a pipeline that were ever read.
select stream_id, topic, partition, cluster_id, topic_id, epoch, retired_at is not null as retired, position
from lockstep.stream where pipeline = %(pipeline)s order by partition, stream_id

-- name: segments
-- What batches own of a stream, and what they recorded of it.
select v.batch_id, lower(v.offsets) as from_offset, upper(v.offsets) as until_offset, u.delivered,
    coalesce(u.delivered - u.rejected - p.records, u.filtered) as filtered,
    u.digest_sum, u.digest_squares, lower(r.offsets) as digest_from, u.quarantined, a.definition_hash
from lockstep.coverage v join lockstep.commit c using (batch_id, stream_id)
join lockstep.attempt a using (batch_id, token)
join lockstep.result u using (batch_id, token, stream_id) join lockstep.batch_range r using (batch_id, stream_id)
left join lockstep.target_rows p
    on p.batch_id = u.batch_id and p.token = u.token and p.stream_id = u.stream_id and p.target = %(target)s
where v.stream_id = %(stream_id)s order by 2

-- name: accounted_offsets
-- Every offset of a stream, from one on, that has a row or a reject, in order; a reject stands where a row has its ordinal.
select _offset as "offset", _ordinal as ordinal from {target} where _stream = %(stream_id)s and _offset >= %(begin)s
union all select "offset", -1 from lockstep.reject where stream_id = %(stream_id)s and "offset" >= %(begin)s order by 1, 2

-- name: accounted_between
-- The offsets of a stretch that have a row or a reject: records stood there, whether or not they still do.
select _offset as "offset" from {target} where _stream = %(stream_id)s and _offset >= %(from_offset)s and _offset < %(until_offset)s
union select "offset" from lockstep.reject
where stream_id = %(stream_id)s and "offset" >= %(from_offset)s and "offset" < %(until_offset)s

-- name: rejected_offsets
-- The offsets of a stream that were rejected.
select "offset" from lockstep.reject where stream_id = %(stream_id)s

-- name: fatal_between
-- The offsets of a stretch that were rejected because they ended their reader's process, or kept it busy.
select "offset" from lockstep.reject
where stream_id = %(stream_id)s and "offset" >= %(from_offset)s and "offset" < %(until_offset)s and reason = any(%(fatal)s)

-- name: rejected_between
-- The offsets of a stretch that were rejected.
select "offset" from lockstep.reject
where stream_id = %(stream_id)s and "offset" >= %(from_offset)s and "offset" < %(until_offset)s

-- name: rows_of_target
-- How many rows a table has, or these batches have there.
select count(*) as rows from {target} t where %(batches)s::bigint[] is null or t._batch = any(%(batches)s)
