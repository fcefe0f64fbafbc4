-- name: standbys
-- Who streams from this server. A login without pg_read_all_stats sees that they are there, and nulls.
select r.application_name as name, r.sync_state from pg_stat_replication r
where coalesce(r.state, 'streaming') in ('startup', 'catchup', 'streaming')
  and not exists (select from pg_replication_slots s where s.active_pid = r.pid and s.slot_type = 'logical')
order by 1

-- name: names
-- Whom COMMIT waits for, and who asks.
select current_user as login, current_setting('synchronous_standby_names') as names
