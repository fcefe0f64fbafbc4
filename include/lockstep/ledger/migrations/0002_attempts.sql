-- What was tried and found: attempts, what they read, how it was judged, and the witness of what was committed.

create table attempt (
    batch_id bigint not null references batch,
    token bigint not null,
    definition_hash text not null references definition,
    owner text not null,
    lease_until timestamptz not null,
    dag_id text,
    dag_run_id text,
    task_instance_id text,
    try_number int,
    log_starts jsonb,  -- per stream, before the read
    spark_application_id text,
    backend_pid int,
    backend_start timestamptz,
    state text not null default 'open'
        check (state in ('open', 'staged', 'validated', 'committed', 'failed', 'superseded', 'abandoned')),
    opened_at timestamptz not null default clock_timestamp(),
    staged_at timestamptz,
    validated_at timestamptz,
    closed_at timestamptz,
    error text,
    fault text check (fault in ('data', 'surroundings')),  -- three of data block the batch (T8)
    effect jsonb,
    primary key (batch_id, token),
    constraint token_once unique (token),
    constraint closed_attempt_has_a_time check ((state in ('open', 'staged', 'validated')) = (closed_at is null))
) with (fillfactor = 50);

create table source_manifest (
    batch_id bigint not null,
    token bigint not null,
    slot int not null,  -- Spark's partition: tries of one task share it
    task bigint not null,
    stream_id int not null references stream,
    delivered bigint not null check (delivered >= 0),
    written bigint not null check (written >= 0),  -- tombstones, which no transform sees
    rejected bigint not null check (rejected >= 0 and written + rejected <= delivered),
    bytes bigint not null,
    digest_sum numeric not null,
    digest_squares numeric not null,
    first_offset bigint,
    last_offset bigint,
    min_timestamp timestamptz,
    max_timestamp timestamptz,
    primary key (batch_id, token, task, stream_id),
    foreign key (batch_id, token) references attempt
);

create table manifest (
    batch_id bigint not null,
    token bigint not null,
    task bigint not null,
    stream_id int not null references stream,
    delivered bigint not null check (delivered >= 0),
    written bigint not null check (written >= 0),
    rejected bigint not null check (rejected >= 0),
    rows bigint not null check (rows >= 0),
    bytes bigint not null,
    digest_sum numeric not null,
    digest_squares numeric not null,
    first_offset bigint,
    last_offset bigint,
    min_timestamp timestamptz,
    max_timestamp timestamptz,
    primary key (batch_id, token, task, stream_id),
    foreign key (batch_id, token) references attempt
);

create table verdict (
    batch_id bigint not null,
    token bigint not null,
    suite text,
    success boolean not null,
    result jsonb not null,
    at timestamptz not null default clock_timestamp(),
    primary key (batch_id, token),
    foreign key (batch_id, token) references attempt
);

create table result (
    batch_id bigint not null,
    token bigint not null,
    stream_id int not null references stream,
    delivered bigint not null,
    written bigint not null,
    filtered bigint not null,
    rejected bigint not null,
    rows bigint not null,
    bytes bigint not null,
    first_offset bigint,
    last_offset bigint,
    min_timestamp timestamptz,
    max_timestamp timestamptz,
    digest_sum numeric not null,
    digest_squares numeric not null,
    log_start_before bigint not null,
    log_start_after bigint not null,
    primary key (batch_id, token, stream_id),
    foreign key (batch_id, token) references attempt,
    foreign key (batch_id, stream_id) references batch_range,
    constraint reconciles check (
        delivered = written + filtered + rejected and least(written, filtered, rejected, rows) >= 0),
    constraint nothing_trimmed check (log_start_before <= log_start_after)
);

create table commit (
    batch_id bigint not null,
    stream_id int not null,
    token bigint not null,
    at timestamptz not null default clock_timestamp(),
    primary key (batch_id, stream_id),
    foreign key (batch_id, stream_id) references batch_range,
    foreign key (batch_id, token, stream_id) references result
);
