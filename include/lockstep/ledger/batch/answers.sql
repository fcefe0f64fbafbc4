-- name: insert_answer
-- What the driver of this try says; it says it once.
insert into lockstep.answer (task_instance_id, try_number, outcome)
values (%(task_instance_id)s, %(try_number)s, %(outcome)s) on conflict do nothing

-- name: answer_to
-- What the driver of this try has said.
select outcome from lockstep.answer where task_instance_id = %(task_instance_id)s and try_number = %(try_number)s
