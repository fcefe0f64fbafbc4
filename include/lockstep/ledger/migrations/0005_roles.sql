-- Who may do what. History is insert only by privilege; a row lock needs UPDATE on one column, so closing is a column grant.

grant usage on schema lockstep to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant select on all tables in schema lockstep
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;

-- plan, requests, decisions
grant insert on pipeline, stream, request, request_window, batch, batch_range, call, claim, decision, boundary, coverage
    to lockstep_planner;
grant update (paused) on pipeline to lockstep_planner;
grant update (position, retired_at) on stream to lockstep_planner;
grant update (closed_at) on request to lockstep_planner;
grant update (state, closed_at, token, owner, lease_until) on batch to lockstep_planner;
grant update (state, closed_at, error) on attempt to lockstep_planner;
grant delete on claim, coverage to lockstep_planner;
grant usage on sequence token_seq to lockstep_planner;

-- stage, validate
grant insert on definition, attempt, source_manifest, manifest, verdict, result to lockstep_stager;
grant update (token, owner, lease_until) on batch to lockstep_stager;
grant update (state, staged_at, validated_at, closed_at, lease_until, error, fault, spark_application_id) on attempt
    to lockstep_stager;
grant usage on sequence token_seq to lockstep_stager;

-- commit, announce, reap
grant insert on commit, coverage, reject, outbox, tombstone, decision to lockstep_committer;
grant delete on coverage, claim, reject, tombstone to lockstep_committer;
grant update (position) on stream to lockstep_committer;
grant update (state, closed_at, lease_until) on batch to lockstep_committer;
grant update (state, closed_at, lease_until, backend_pid, backend_start, error, fault, effect) on attempt
    to lockstep_committer;
grant update on tombstone to lockstep_committer;
grant usage on sequence token_seq to lockstep_committer;
