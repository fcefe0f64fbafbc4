-- What Spark says of its own work at an attempt: where its pages and its event log are, its stages, memory and garbage
-- collection. Nothing is decided by it, and no commit needs it.

-- A page leads there, so no other scheme is taken.
alter table attempt add column spark_ui text constraint spark_ui_is_web check (spark_ui ~ '^https?://'),
    add column spark_event_log text;
grant update (spark_ui, spark_event_log) on attempt to lockstep_stager;

-- `stages` counts all that ran, also those that are not kept. Null: Spark does not say. `server`: a Spark Connect server, which
-- tells its clients neither.
create table spark_run (
    batch_id bigint not null,
    token bigint not null,
    place text not null check (place in ('local', 'cluster', 'server')),
    stages int check (stages >= 0),
    heap_peak_bytes bigint,
    heap_limit_bytes bigint,
    gc_seconds float8,
    primary key (batch_id, token),
    foreign key (batch_id, token) references attempt,
    constraint server_says_nothing check (
        place <> 'server' or num_nonnulls(stages, heap_peak_bytes, heap_limit_bytes, gc_seconds) = 0)
);

-- Median and longest are those of the tasks that succeeded.
create table spark_stage (
    batch_id bigint not null,
    token bigint not null,
    stage int not null,
    try_number int not null,
    name text not null,
    state text not null,
    began_at timestamptz,
    seconds float8,
    tasks int not null,
    failed_tasks int not null,
    median_seconds float8,
    longest_seconds float8,
    gc_seconds float8 not null,
    input_records bigint not null,
    input_bytes bigint not null,
    shuffle_bytes bigint not null,
    spilled_bytes bigint not null,
    peak_memory_bytes bigint not null,
    primary key (batch_id, token, stage, try_number),
    foreign key (batch_id, token) references spark_run
);

grant select on spark_run, spark_stage
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on spark_run, spark_stage to lockstep_stager;
