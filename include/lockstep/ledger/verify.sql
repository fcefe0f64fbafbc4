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
select s.topic, s.partition, 'batch ' || u.batch_id || ': ' || u.rejected || ' rejects recorded, '
    || count(j."offset") || ' are there' as what
from lockstep.segment v
join lockstep.result u using (batch_id, token, stream_id) join lockstep.stream s using (stream_id)
left join lockstep.reject j on j.stream_id = u.stream_id and j.batch_id = u.batch_id
where s.pipeline = %(pipeline)s group by s.stream_id, u.batch_id, u.rejected having count(j."offset") <> u.rejected
order by u.batch_id, s.partition

-- name: rows_not_counted
-- Every batch has as many rows in an appended target as it recorded.
select s.topic, s.partition, 'batch ' || u.batch_id || ': ' || coalesce(p.rows, u.rows) || ' rows recorded, ' || coalesce(t.rows, 0)
    || ' are in the target' as what
from lockstep.segment v
join lockstep.result u using (batch_id, token, stream_id) join lockstep.stream s using (stream_id)
left join (select _batch, _stream, count(*) as rows from {target} group by 1, 2) t
    on t._batch = u.batch_id and t._stream = u.stream_id
left join lockstep.target_rows p
    on p.batch_id = u.batch_id and p.token = u.token and p.stream_id = u.stream_id and p.target = %(target)s
where s.pipeline = %(pipeline)s and coalesce(p.rows, u.rows) <> coalesce(t.rows, 0) order by u.batch_id, s.partition

-- name: rows_not_covered
-- Every row of the target answers for itself: its batch owns its offset.
select s.topic, s.partition, 'a row of offset ' || t._offset || ' names batch ' || t._batch || ', which does not own it' as what
from {target} t join lockstep.stream s on s.stream_id = t._stream
left join lockstep.segment g on g.stream_id = t._stream and g.batch_id = t._batch
where s.pipeline = %(pipeline)s and not coalesce(g.offsets @> t._offset, false)
  -- a partition that was attached behind this snapshot shows its rows, and its batch is not committed yet
  and not (lockstep.is_by_batch(to_regclass(%(target)s)) and coalesce(
    (select b.state = 'planned' from lockstep.batch b where b.batch_id = t._batch),
    t._batch > (select max(batch_id) from lockstep.batch)))
order by s.partition, t._offset limit 1

-- name: verified_streams
-- The streams of a pipeline that were ever read.
select stream_id, topic, partition, cluster_id, topic_id, epoch, retired_at is not null as retired, position
from lockstep.stream where pipeline = %(pipeline)s order by partition, stream_id

-- name: segments
-- What batches own of a stream, and what they recorded of it.
select v.batch_id, lower(v.offsets) as from_offset, upper(v.offsets) as until_offset, u.delivered,
    coalesce(u.delivered - u.rejected - p.records, u.filtered) as filtered,
    u.digest_sum, u.digest_squares, lower(r.offsets) as digest_from
from lockstep.coverage v join lockstep.commit c using (batch_id, stream_id)
join lockstep.result u using (batch_id, token, stream_id) join lockstep.batch_range r using (batch_id, stream_id)
left join lockstep.target_rows p
    on p.batch_id = u.batch_id and p.token = u.token and p.stream_id = u.stream_id and p.target = %(target)s
where v.stream_id = %(stream_id)s order by 2

-- name: accounted_offsets
-- Every offset of a stream that has a row or a reject, in order.
select _offset as "offset" from {target} where _stream = %(stream_id)s
union all select "offset" from lockstep.reject where stream_id = %(stream_id)s order by 1

-- name: accounted_between
-- The offsets of a stretch that have a row or a reject: records stood there, whether or not they still do.
select _offset as "offset" from {target} where _stream = %(stream_id)s and _offset >= %(from_offset)s and _offset < %(until_offset)s
union select "offset" from lockstep.reject
where stream_id = %(stream_id)s and "offset" >= %(from_offset)s and "offset" < %(until_offset)s

-- name: rejected_offsets
-- The offsets of a stream that were rejected.
select "offset" from lockstep.reject where stream_id = %(stream_id)s

-- name: keyed_rows
-- Every row of an upserted target: its key as text, and which record it is.
select array[{keys}] as key, _stream, _offset from {target}
