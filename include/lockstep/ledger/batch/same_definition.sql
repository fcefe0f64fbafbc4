-- name: definition_of
-- The definition that an attempt was opened with.
select a.definition_hash, d.document from lockstep.attempt a join lockstep.definition d using (definition_hash)
where a.batch_id = %(batch_id)s and a.token = %(token)s and a.definition_hash <> %(definition_hash)s
