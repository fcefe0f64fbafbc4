-- name: facts
-- Whether tasks may make parts of a table by batch: the work's size, and what in the table looks at an INSERT or runs code.
select coalesce(b.lane, 'live') as lane, coalesce(r.preview, false) as is_preview,
    coalesce(o.ranges, %(ranges)s) as ranges, coalesce(o.offsets, %(offsets)s)::bigint as offsets,
    exists (select from pg_trigger g where g.tgrelid = c.oid and not g.tgisinternal) as has_triggers,
    exists (select from pg_constraint k where k.conrelid = c.oid and k.contype = 'f') as has_foreign_keys,
    exists (
        select from pg_index i where i.indrelid = c.oid and (i.indexprs is not null or i.indpred is not null or i.indisexclusion)
    ) as has_other_keys
from (values (%(batch_id)s::bigint)) n (batch_id)
join pg_class c on c.oid = to_regclass(%(table)s)
left join lockstep.batch b using (batch_id) left join lockstep.request r using (request_id)
left join lateral (
    select count(*) as ranges, sum(upper(g.offsets) - lower(g.offsets)) as offsets
    from lockstep.batch_range g where g.batch_id = n.batch_id having count(*) > 0) o on true
