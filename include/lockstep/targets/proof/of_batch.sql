-- name: rows
-- The rows that a batch wrote and that no later batch has changed since, in the log's order.
select t.* from {target} t where t._batch = %(batch_id)s order by t._stream, t._offset, t._ordinal
