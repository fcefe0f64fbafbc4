-- name: wait_for_no_standby_here
-- Nothing rests on these figures, so a standby that is away must not hold up the batch.
select set_config('synchronous_commit', 'off', true)

-- name: insert_spark_run
-- What Spark says of an attempt as a whole.
insert into lockstep.spark_run (batch_id, token, place, stages, heap_peak_bytes, heap_limit_bytes, gc_seconds, records)
values (%(batch_id)s, %(token)s, %(place)s, %(stages)s, %(heap_peak_bytes)s, %(heap_limit_bytes)s, %(gc_seconds)s, %(records)s)

-- name: insert_spark_stages
-- The slowest stages of an attempt.
insert into lockstep.spark_stage (batch_id, token, stage, try_number, name, state, began_at, seconds, tasks, failed_tasks,
    median_seconds, longest_seconds, gc_seconds, input_records, input_bytes, shuffle_bytes, spilled_bytes, peak_memory_bytes)
values %s

-- name: spark_runs_of_batch
-- What Spark has said of a batch's attempts.
select token, place, stages as stages_run, heap_peak_bytes, heap_limit_bytes, gc_seconds, records
from lockstep.spark_run where batch_id = %(batch_id)s

-- name: spark_stages_of_batch
-- The stages that were kept of a batch's attempts, in their order.
select token, stage, try_number, name, state, began_at, seconds, tasks, failed_tasks, median_seconds, longest_seconds, gc_seconds,
    input_records, input_bytes, shuffle_bytes, spilled_bytes, peak_memory_bytes
from lockstep.spark_stage where batch_id = %(batch_id)s order by token, stage, try_number
