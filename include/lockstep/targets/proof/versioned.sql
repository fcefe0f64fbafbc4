-- name: versions_not_in_order
-- Every version ends where the next one of its key begins, in the order of their moments, or of the log without one.
select s.topic, s.partition, t._batch as batch_id, 'key ' || jsonb_build_array({keys})::text || ': the version of offset ' || t._offset || ' is valid from '
    || t.valid_from || ' until ' || coalesce(t.valid_until::text, 'now') || ', and the next one begins at '
    || coalesce(t."Next"::text, 'no time') as what
from (
    select t.*, min(t.valid_from) over (partition by {keys}
        order by {order} s.since desc, t._offset desc, t._stream desc, t._ordinal desc
        rows between unbounded preceding and 1 preceding) as "Next"
    -- an epoch is older than those that were opened later, also by another owner of the table
    from {target} t left join (
        select stream_id, min(stream_id) over (partition by pipeline, epoch) as since from lockstep.stream) s
        on s.stream_id = t._stream) t
left join lockstep.stream s on s.stream_id = t._stream
where t.valid_until is distinct from
    case when t._deleted then t.valid_from when t."Next" is not null then greatest(t.valid_from, t."Next") end
order by s.partition, t._offset

-- name: moments_not_kept
-- Every version begins at the moment that its record names.
select s.topic, s.partition, t._batch as batch_id, 'the version of offset ' || t._offset || ' is valid from ' || t.valid_from || ', and its record says '
    || coalesce({moment}::text, 'nothing') as what
from {target} t left join lockstep.stream s on s.stream_id = t._stream
where not t._deleted and t.valid_from is distinct from {moment} order by s.partition, t._offset

-- name: moments_of_offsets
-- The moments from which a batch's versions of these offsets are valid.
select distinct t._offset as "offset", t.valid_from as moment from {target} t
where t._stream = %(stream_id)s and t._batch = %(batch_id)s and t._offset between %(first)s and %(last)s
order by 1
