-- name: facts
-- Whether a batch's rows may be copied into their table at once, hidden until the commit.
select coalesce(b.lane, 'live') as lane, coalesce(r.preview, false) as is_preview,
    exists (select from pg_trigger g where g.tgrelid = to_regclass(%(rows_table)s) and not g.tgisinternal) as has_triggers,
    has_table_privilege('lockstep_partition', to_regclass(%(rows_table)s), 'select')
        and has_table_privilege('lockstep_partition', to_regclass(%(rows_table)s), 'insert')
        and has_table_privilege('lockstep_partition', to_regclass(%(rows_table)s), 'delete') as is_granted
from (values (%(batch_id)s::bigint)) n (batch_id)
left join lockstep.batch b using (batch_id) left join lockstep.request r using (request_id)
