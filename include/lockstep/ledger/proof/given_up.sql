-- name: undecided
-- Lost or skipped offsets that no decision of the pipeline names.
with decided as (
    select d.detail ->> 'stream_id' as stream_id, case d.kind when 'skip' then 'skipped' else 'loss' end as kind,
        range_agg(lockstep.given_up(d.kind, d.detail)) as offsets
    from lockstep.decision d where d.pipeline = %(pipeline)s and d.kind in ('skip', 'accept-loss') group by 1, 2)
select s.topic, s.partition, c.kind || ' ' || (int8multirange(c.offsets) - coalesce(d.offsets, '{}'))::text
    || ' is named by no decision' as what
from lockstep.coverage c join lockstep.stream s using (stream_id)
left join decided d on d.stream_id = s.stream_id::text and d.kind = c.kind
where s.pipeline = %(pipeline)s and c.kind <> 'batch' and not coalesce(d.offsets, '{}') @> c.offsets
order by s.topic, s.partition, c.offsets

-- name: counts
-- Of each stream, how many offsets it has passed, how many of them are lost or skipped, and by which decisions.
select s.stream_id, sum(upper(c.offsets) - lower(c.offsets))::bigint as passed,
    coalesce(sum(upper(c.offsets) - lower(c.offsets)) filter (where c.kind = 'loss'), 0)::bigint as lost,
    coalesce(sum(upper(c.offsets) - lower(c.offsets)) filter (where c.kind = 'skipped'), 0)::bigint as skipped,
    array(
        select d.decision_id from lockstep.decision d
        where d.pipeline = %(pipeline)s and d.kind = 'accept-loss' and d.detail ->> 'stream_id' = s.stream_id::text
          and lockstep.given_up(d.kind, d.detail) && any (array_agg(c.offsets) filter (where c.kind = 'loss'))
        order by 1) as lost_by,
    array(
        select d.decision_id from lockstep.decision d
        where d.pipeline = %(pipeline)s and d.kind = 'skip' and d.detail ->> 'stream_id' = s.stream_id::text
          and lockstep.given_up(d.kind, d.detail) && any (array_agg(c.offsets) filter (where c.kind = 'skipped'))
        order by 1) as skipped_by
from lockstep.stream s join lockstep.coverage c using (stream_id)
where s.pipeline = %(pipeline)s group by s.stream_id order by s.stream_id

-- name: losses
-- The offsets of streams that were accepted as lost.
select c.stream_id, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset
from lockstep.coverage c where c.stream_id = any(%(streams)s) and c.kind = 'loss' order by c.stream_id, c.offsets
