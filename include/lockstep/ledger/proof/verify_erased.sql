-- name: erasures
-- The erasures of a pipeline, with the decision and what the decision says of each.
select e.erasure_id, e.column_name, e.as_uuid, d.decision_id, lockstep.erased_digest(e.erasure_id) as found,
    d.detail ->> 'erased' as said, e.digest = d.detail ->> 'key' as same_key
from lockstep.erasure e left join lockstep.decision d on d.decision_id = lockstep.erasure_decision(e.erasure_id)
where e.pipeline = any(lockstep.line_of(%(pipeline)s)) order by 1

-- name: undone
-- Rows of a target that hold an erased key, of records below the erasure's bounds.
select s.topic, s.partition, 'offset ' || t._offset || ' of ' || %(target)s || ' holds a key that decision '
    || lockstep.erasure_decision(e.erasure_id) || ' erased' as what
from {target} t join lockstep.stream s on s.stream_id = t._stream and s.pipeline = any(lockstep.line_of(%(owner)s))
join lockstep.erasure e on e.pipeline = %(pipeline)s and e.column_name = %(column)s and e.as_uuid = %(as_uuid)s
    and e.digest = lockstep.key_digest(
        (select z.salt from lockstep.erasure_salt z where z.pipeline = %(pipeline)s), convert_to({key}, 'UTF8'))
join lockstep.erasure_bound b
    on b.erasure_id = e.erasure_id and b.topic_id = s.topic_id and b.partition = s.partition and t._offset < b.until_offset
order by s.partition, t._offset

-- name: still_added
-- Late rows and shares of totals that hold an erased key, of records below the erasure's bounds.
select s.topic, s.partition, 'offset ' || k."offset" || ', ' || k.what || ' ' || %(target)s || ', holds a key that decision '
    || lockstep.erasure_decision(e.erasure_id) || ' erased' as what
from (
    select l.stream_id, l."offset", l.key, 'late for' as what from lockstep.late l where l.target = %(target)s
    union all
    select c.stream_id, c."offset", c.key, 'which counts in' from lockstep.contribution c where c.target = %(target)s and c.records > 0) k
join lockstep.stream s on s.stream_id = k.stream_id and s.pipeline = any(lockstep.line_of(%(owner)s))
join lockstep.erasure e on e.pipeline = %(pipeline)s and e.column_name = %(column)s and e.as_uuid = %(as_uuid)s
    and e.digest = lockstep.key_digest(
        (select z.salt from lockstep.erasure_salt z where z.pipeline = %(pipeline)s),
        convert_to(case when e.as_uuid then replace(k.key ->> %(place)s, '-', '') else k.key ->> %(place)s end, 'UTF8'))
join lockstep.erasure_bound b
    on b.erasure_id = e.erasure_id and b.topic_id = s.topic_id and b.partition = s.partition and k."offset" < b.until_offset
order by s.partition, k."offset"

-- name: erased_offsets
-- The offsets of a stream whose rows were erased from a target.
select distinct x.batch_id, x."offset" from lockstep.erased x where x.relation = %(target)s and x.stream_id = %(stream_id)s

-- name: taken_out
-- How much all erasures of a pipeline took out, by table.
select x.relation, sum(x.rows)::bigint as rows from lockstep.erased x join lockstep.erasure e using (erasure_id)
where e.pipeline = any(lockstep.line_of(%(pipeline)s)) group by 1
union all
select 'lockstep_feed.' || f.name, count(*) from lockstep.blank_change b join lockstep.erasure e using (erasure_id)
join lockstep.change_set c using (change_set_id) join lockstep.feed f using (target)
where e.pipeline = any(lockstep.line_of(%(pipeline)s)) group by 1 order by 1
