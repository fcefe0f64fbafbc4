-- name: show_to_judge
-- Within this transaction pg_temp.judged_rows has the attempt's rows, for lockstep_judge.
select lockstep.show_to_judge(%(batch_id)s, %(token)s)
