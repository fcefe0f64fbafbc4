-- name: is_by_batch
-- Whether a table is partitioned by list of _batch alone.
select lockstep.is_by_batch(to_regclass(%(table)s)) as does

-- name: is_alike
-- Whether staged rows can be the table's as they are: the same columns of the same types, and nothing that only INSERT sees to.
select not c.relrowsecurity and not c.relhasrules
    and not exists (select from pg_trigger t where t.tgrelid = c.oid and not t.tgisinternal)
    and not exists (select from pg_constraint k where k.conrelid = c.oid and k.contype in ('c', 'f'))
    and not exists (
        select from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attname <> '_batch'
          and (a.attidentity <> '' or a.attgenerated <> '' or not exists (
            select from pg_attribute s
            where s.attrelid = to_regclass(%(staged)s) and s.attnum > 0 and not s.attisdropped
              and (s.attname, s.atttypid, s.atttypmod, s.attcollation) = (a.attname, a.atttypid, a.atttypmod, a.attcollation)))) as does
from pg_class c where c.oid = to_regclass(%(table)s)

-- name: attach_staged
-- The staged rows become the batch's partition.
select lockstep.attach_staged(to_regclass(%(table)s), lockstep.guard_staged(to_regclass(%(staged)s), %(batch_id)s, %(token)s),
    %(batch_id)s, %(token)s)

-- name: begin_attaching
-- What comes next can be taken back by itself.
savepoint attaching

-- name: undo_attaching
-- As if the rows had never been attached.
rollback to savepoint attaching

-- name: end_attaching
-- The rows stay attached.
release savepoint attaching

-- name: replaced_partitions
-- Partitions, of tables that are partitioned by batch, of single batches that own nothing any more.
select i.inhparent::regclass::text as target, c.oid::regclass::text as part
from pg_inherits i join pg_class c on c.oid = i.inhrelid
join lockstep.batch b on b.batch_id = (
    select substring(pg_get_expr(c.relpartbound, c.oid) from $re$^FOR VALUES IN \('?(\d+)'?\)$re$)::bigint)
where lockstep.is_by_batch(i.inhparent) and b.state <> 'planned'
  and not exists (select from lockstep.coverage v where v.batch_id = b.batch_id)
order by c.oid

-- name: drop_replaced
-- Drops such a partition if it is empty; whether it is gone.
select lockstep.drop_replaced_partition(%(target)s::regclass, %(part)s::regclass) as gone

-- name: make_partition
-- An empty partition for the batch.
select lockstep.make_partition(to_regclass(%(table)s), %(batch_id)s, %(token)s)
