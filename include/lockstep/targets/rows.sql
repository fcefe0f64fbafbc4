-- name: of_winners
-- What the tasks of the kept manifests have staged and nobody rejects.
(select s.* from {table} s
    join (select distinct task from lockstep.manifest where batch_id = {batch_id} and token = {token}) w on w.task = s._task
    where s._reason is null)

-- name: of_range
-- What a task has copied of its range and nobody rejects.
(select s.* from {table} s where s._reason is null)
