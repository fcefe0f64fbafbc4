-- name: same_tries
-- A try of a task that two task instances have been, in the last 30 days. An Airflow gives each try one instance.
select a.dag_id, a.dag_run_id, a.task_id, a.try_number from lockstep.attempt a
where a.dag_id is not null and a.task_instance_id is not null and a.opened_at > clock_timestamp() - interval '30 days'
group by a.owner, a.dag_id, a.dag_run_id, a.task_id, a.map_index, a.try_number
having count(distinct a.task_instance_id) > 1
order by max(a.opened_at) desc limit 1
