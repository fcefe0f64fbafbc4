-- name: definitions_that_ran
-- The definitions under which a pipeline's attempts ran, each with the first batch.
select d.definition_hash, d.document, f.batch_id from (
    select a.definition_hash, min(a.batch_id) as batch_id
    from lockstep.attempt a join lockstep.batch b using (batch_id) where b.pipeline = %(pipeline)s group by 1) f
join lockstep.definition d using (definition_hash) order by f.batch_id, d.definition_hash
