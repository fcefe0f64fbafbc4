-- The ledger as it is in force: what all migrations together make, in schema lockstep, owned by lockstep_owner.
-- Written by `make schema`, to be read. `lockstep migrate` applies the migrations, not this file; a test holds it to them.
-- Roles and grants are in catalog.txt.

-- drawn under the batch's row lock; drawing locks nothing
create sequence token_seq;

create table migration (
    version integer not null,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default clock_timestamp(),
    constraint migration_pkey primary key (version)
);

create table pipeline (
    name text not null,
    paused boolean not null default false,
    constraint pipeline_pkey primary key (name),
    constraint name_is_identifier check (name ~ '^[a-z_][a-z0-9_]{0,62}$')
);

create table definition (
    definition_hash text not null,
    pipeline text not null,
    document jsonb not null,
    code_version text not null,
    at timestamptz not null default clock_timestamp(),
    constraint definition_pkey primary key (definition_hash),
    constraint definition_pipeline_fkey foreign key (pipeline) references pipeline(name)
);

create table stream (
    stream_id integer not null generated always as identity,
    pipeline text not null,
    cluster_id text not null,
    topic text not null,
    topic_id text not null,
    partition integer not null,
    incarnation integer not null,
    epoch integer not null,
    start_offset bigint not null,
    "position" bigint not null,
    opened_at timestamptz not null default clock_timestamp(),
    retired_at timestamptz,
    -- The leader epoch under which a plan last saw the log, whole up to the position. Null: no plan has seen one yet.
    leader_epoch integer,
    constraint stream_pkey primary key (stream_id),
    constraint one_stream_an_epoch unique (pipeline, topic, partition, epoch),
    constraint not_before_start check ("position" >= start_offset),
    constraint stream_epoch_check check (epoch >= 0),
    constraint stream_incarnation_check check (incarnation >= 0),
    constraint stream_leader_epoch_check check (leader_epoch >= 0),
    constraint stream_partition_check check (partition >= 0),
    constraint stream_start_offset_check check (start_offset >= 0),
    constraint stream_pipeline_fkey foreign key (pipeline) references pipeline(name)
) with (fillfactor=70);
create unique index one_open_stream on stream (pipeline, topic, partition) where retired_at is null;

create table request (
    request_id bigint not null generated always as identity,
    pipeline text not null,
    lane text not null,
    token bigint not null,  -- a segment is due while the token that owns it is lower
    who text not null,
    why text not null,
    opened_at timestamptz not null default clock_timestamp(),
    closed_at timestamptz,
    preview boolean not null default false,
    login name,
    client inet,
    program text,
    os_user text,
    constraint request_pkey primary key (request_id),
    constraint request_lane_check check (lane in ('fill', 'replay')),
    constraint request_pipeline_fkey foreign key (pipeline) references pipeline(name)
);

create table request_window (
    request_id bigint not null,
    stream_id integer not null,
    offsets int8range not null,
    constraint no_window_twice exclude using gist (int8range(request_id, request_id, '[]') with &&,
        int4range(stream_id, stream_id, '[]') with &&, offsets with &&),
    constraint half_open check (not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint request_window_request_id_fkey foreign key (request_id) references request(request_id),
    constraint request_window_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index window_of_request on request_window (request_id);

create table batch (
    batch_id bigint not null generated always as identity,
    pipeline text not null,
    lane text not null,
    request_id bigint,
    token bigint not null default 0,
    owner text not null,
    lease_until timestamptz not null,  -- holds until an attempt is opened
    state text not null default 'planned',
    planned_at timestamptz not null default clock_timestamp(),
    closed_at timestamptz,
    nonce uuid,  -- The fence is both: the number that orders attempts, and the id that no other timeline can have drawn.
    constraint batch_pkey primary key (batch_id),
    constraint batch_lane_check check (lane in ('live', 'fill', 'replay')),
    constraint batch_state_check check (state in ('planned', 'committed', 'abandoned')),
    constraint closed_has_a_time check ((state = 'planned') = (closed_at is null)),
    constraint live_has_no_request check ((lane = 'live') = (request_id is null)),
    constraint batch_pipeline_fkey foreign key (pipeline) references pipeline(name),
    constraint batch_request_id_fkey foreign key (request_id) references request(request_id)
) with (fillfactor=80);
create unique index one_unfinished_live_batch on batch (pipeline) where lane = 'live' and state = 'planned';
create index unfinished on batch (pipeline) where state = 'planned';
create index batch_history on batch (pipeline, batch_id);
create index batch_of_request on batch (request_id) where request_id is not null;

create table batch_range (
    batch_id bigint not null,
    stream_id integer not null,
    offsets int8range not null,
    constraint batch_range_pkey primary key (batch_id, stream_id),
    constraint half_open check (not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint batch_range_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint batch_range_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);

create table call (
    pipeline text not null,
    key text not null,
    batch_id bigint not null,
    at timestamptz not null default clock_timestamp(),
    constraint call_pkey primary key (pipeline, key, batch_id),
    constraint call_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint call_pipeline_fkey foreign key (pipeline) references pipeline(name)
);
create index call_of_batch on call (batch_id);

create table claim (
    stream_id integer not null,
    offsets int8range not null,
    batch_id bigint not null,
    expects text not null,
    expects_batch bigint,
    constraint claimed_once exclude using gist (int4range(stream_id, stream_id, '[]') with &&, offsets with &&),
    constraint claim_expects_check check (expects in ('nothing', 'batch', 'skipped')),
    constraint expects_whom check ((expects = 'batch') = (expects_batch is not null)),
    constraint half_open check (not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint claim_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint claim_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index claim_of_batch on claim (batch_id);

create table decision (
    decision_id bigint not null generated always as identity,
    pipeline text not null,
    kind text not null,
    who text not null,
    why text not null,
    at timestamptz not null default clock_timestamp(),
    detail jsonb not null default '{}'::jsonb,
    login name,  -- Null: recorded before migration 0024.
    client inet,  -- Null: recorded before migration 0024.
    program text,  -- Null: recorded before migration 0024.
    os_user text,  -- Null: recorded before migration 0024.
    constraint decision_pkey primary key (decision_id),
    constraint alter_is_told check (kind <> 'alter' or coalesce((detail ->> 'digest') ~ '^[0-9a-f]{16}$', false)
        and coalesce(jsonb_path_exists(detail, '$."statements"[*]?(@.type() == "string" && @ != "")'::jsonpath), false)),
    constraint decision_kind_check check (kind in ('pause', 'unpause', 'skip', 'accept-loss', 'abandon', 'retire',
        'approve', 'refuse-approval', 'grow', 'restored', 'hand-over', 'alter', 'erase')),
    constraint decision_pipeline_fkey foreign key (pipeline) references pipeline(name)
);

create table attempt (
    batch_id bigint not null,
    token bigint not null,
    definition_hash text not null,
    owner text not null,
    lease_until timestamptz not null,
    dag_id text,
    dag_run_id text,
    task_instance_id text,
    try_number integer,
    log_starts jsonb,  -- per stream, before the read
    spark_application_id text,
    backend_pid integer,
    backend_start timestamptz,
    state text not null default 'open',
    opened_at timestamptz not null default clock_timestamp(),
    staged_at timestamptz,
    validated_at timestamptz,
    closed_at timestamptz,
    error text,
    fault text,  -- three of data block the batch (T8)
    effect jsonb,
    unit text not null default 'batch',  -- What one commit of an attempt moves: the whole batch, or one stream of it.
    nonce uuid,  -- Drawn by the client when an attempt is opened. Null: opened by code from before migration 0018.
    constraint attempt_pkey primary key (batch_id, token),
    constraint one_definition unique (batch_id, token, definition_hash),
    constraint token_once unique (token),
    constraint attempt_fault_check check (fault in ('data', 'surroundings')),
    constraint attempt_state_check check (state in ('open', 'staged', 'validated', 'committed', 'failed', 'superseded',
        'abandoned')),
    constraint attempt_unit_check check (unit in ('batch', 'stream')),
    constraint closed_attempt_has_a_time check ((state in ('open', 'staged', 'validated')) = (closed_at is null)),
    constraint attempt_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint attempt_definition_hash_fkey foreign key (definition_hash) references definition(definition_hash)
) with (fillfactor=50);
create unique index nonce_once on attempt (nonce);

create table source_manifest (
    batch_id bigint not null,
    token bigint not null,
    slot integer not null,  -- Spark's partition: tries of one task share it
    task bigint not null,
    stream_id integer not null,
    delivered bigint not null,
    written bigint not null,  -- tombstones, which no transform sees
    rejected bigint not null,
    bytes bigint not null,
    digest_sum numeric not null,
    digest_squares numeric not null,
    first_offset bigint,
    last_offset bigint,
    min_timestamp timestamptz,
    max_timestamp timestamptz,
    constraint source_manifest_pkey primary key (batch_id, token, task, stream_id),
    constraint source_manifest_check check (rejected >= 0 and (written + rejected) <= delivered),
    constraint source_manifest_delivered_check check (delivered >= 0),
    constraint source_manifest_written_check check (written >= 0),
    constraint source_manifest_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token),
    constraint source_manifest_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);

create table manifest (
    batch_id bigint not null,
    token bigint not null,
    task bigint not null,
    stream_id integer not null,
    delivered bigint not null,
    written bigint not null,
    rejected bigint not null,
    rows bigint not null,
    bytes bigint not null,
    digest_sum numeric not null,
    digest_squares numeric not null,
    first_offset bigint,
    last_offset bigint,
    min_timestamp timestamptz,
    max_timestamp timestamptz,
    rows_digest numeric,
    rejects_digest numeric,
    constraint manifest_pkey primary key (batch_id, token, task, stream_id),
    constraint manifest_delivered_check check (delivered >= 0),
    constraint manifest_rejected_check check (rejected >= 0),
    constraint manifest_rows_check check (rows >= 0),
    constraint manifest_written_check check (written >= 0),
    constraint manifest_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token),
    constraint manifest_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);

create table verdict (
    batch_id bigint not null,
    token bigint not null,
    suite text,
    success boolean not null,
    result jsonb not null,
    at timestamptz not null default clock_timestamp(),
    definition_hash text,
    erased_digest text,  -- The digest of a verdict whose values were erased: the chain has it, and goes on to hold.
    constraint verdict_pkey primary key (batch_id, token),
    constraint verdict_erased_digest_check check (erased_digest ~ '^[0-9a-f]{64}$'),
    constraint judged_as_staged foreign key (batch_id, token, definition_hash)
        references attempt(batch_id, token, definition_hash),
    constraint verdict_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token)
);
alter table verdict add constraint verdict_names_its_definition check (definition_hash is not null) not valid;

create table result (
    batch_id bigint not null,
    token bigint not null,
    stream_id integer not null,
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
    quarantined bigint not null default 0,
    rows_digest numeric,
    rejects_digest numeric,
    constraint result_pkey primary key (batch_id, token, stream_id),
    constraint nothing_trimmed check (log_start_before <= log_start_after),
    constraint quarantined_are_rejected check (quarantined >= 0 and quarantined <= rejected),
    constraint reconciles check (delivered = (written + filtered + rejected)
        and least(written, filtered, rejected, rows) >= 0),
    constraint result_batch_id_stream_id_fkey foreign key (batch_id, stream_id) references batch_range(batch_id, stream_id),
    constraint result_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token),
    constraint result_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);

create table commit (
    batch_id bigint not null,
    stream_id integer not null,
    token bigint not null,
    at timestamptz not null default clock_timestamp(),
    nonce uuid,  -- The committer writes down which attempt it believes to be; the database compares.
    definition_hash text,
    constraint commit_pkey primary key (batch_id, stream_id),
    constraint commit_batch_id_stream_id_fkey foreign key (batch_id, stream_id) references batch_range(batch_id, stream_id),
    constraint commit_batch_id_token_stream_id_fkey foreign key (batch_id, token, stream_id)
        references result(batch_id, token, stream_id),
    constraint committed_as_staged foreign key (batch_id, token, definition_hash)
        references attempt(batch_id, token, definition_hash)
);
alter table commit add constraint commit_names_its_definition check (definition_hash is not null) not valid;

create table coverage (
    stream_id integer not null,
    offsets int8range not null,
    kind text not null,
    batch_id bigint,
    constraint no_offset_twice exclude using gist (int4range(stream_id, stream_id, '[]') with &&, offsets with &&),
    constraint batch_is_named check ((kind = 'batch') = (batch_id is not null)),
    constraint coverage_kind_check check (kind in ('batch', 'loss', 'skipped')),
    constraint half_open check (not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint coverage_stream_id_fkey foreign key (stream_id) references stream(stream_id),
    constraint covered_by_commit foreign key (batch_id, stream_id) references commit(batch_id, stream_id)
);
create index coverage_order on coverage (stream_id, lower(offsets));
create index coverage_of_batch on coverage (batch_id) where batch_id is not null;

create table reject (
    stream_id integer not null,
    "offset" bigint not null,
    batch_id bigint not null,
    "timestamp" timestamptz,
    key bytea,
    value bytea,
    headers json,  -- json, not jsonb: a header may hold \u0000
    reason text not null,
    emptied_at timestamptz,  -- Rejects whose bytes are gone keep offset, reason, and what their digest lost with the bytes.
    removed_digest numeric,  -- Rejects whose bytes are gone keep offset, reason, and what their digest lost with the bytes.
    constraint reject_pkey primary key (stream_id, "offset"),
    constraint emptied_is_empty check ((emptied_at is null) = (removed_digest is null)
        and (emptied_at is null or num_nonnulls(key, value, headers) = 0)),
    constraint reject_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint reject_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index reject_with_bytes on reject (stream_id, batch_id) where emptied_at is null;

create table boundary (
    stream_id integer not null,
    at timestamptz not null,
    "offset" bigint not null,
    constraint boundary_pkey primary key (stream_id, at),
    constraint boundary_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);

create table tombstone (
    target text not null,
    key jsonb not null,
    stream_id integer not null,
    "offset" bigint not null,
    "order" text,
    constraint tombstone_pkey primary key (target, key),
    constraint tombstone_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index tombstone_of_stream on tombstone (stream_id, "offset");

create table outbox (
    outbox_id bigint not null generated always as identity,
    batch_id bigint not null,
    topic text not null,
    key bytea,
    value bytea,
    headers json,
    constraint outbox_pkey primary key (outbox_id),
    constraint outbox_batch_id_fkey foreign key (batch_id) references batch(batch_id)
);

create table contribution (
    target text not null,
    key jsonb not null,
    batch_id bigint not null,
    stream_id integer not null,
    records bigint not null,
    "offset" bigint not null,  -- of the newest record that counts, with its last row
    ordinal integer not null,
    totals jsonb not null,
    constraint contributes_once primary key (batch_id, stream_id, target, key),
    constraint contribution_records_check check (records > 0),
    constraint key_is_whole check (not key @> '[null]'::jsonb)
);
create index contribution_of_key on contribution (target, key);

-- Which connections the tasks of an attempt commit over, so that the next attempt can end those that are still there.
create table task_backend (
    batch_id bigint not null,
    token bigint not null,
    pid integer not null,
    backend_start timestamptz not null,
    at timestamptz not null default clock_timestamp(),
    constraint task_backend_pkey primary key (batch_id, token, pid, backend_start),
    constraint task_backend_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token)
);

-- The store has confirmed that the results of a batch are there. Never changed.
create table delivery (
    batch_id bigint not null,
    token bigint not null,
    at timestamptz not null default clock_timestamp(),
    effect jsonb not null,
    nonce uuid,
    constraint delivery_pkey primary key (batch_id),
    constraint delivery_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint delivery_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token)
);

-- What a store notes beside the results, in the transaction that brings them: whose delivery lies on which offsets. Other
-- Postgres stores hold a table like this one; here it is for results in the ledger's own database.
create table arrival (
    target text not null,
    stream_id integer not null,
    offsets int8range not null,
    batch_id bigint not null,
    token bigint not null,
    at timestamptz not null default clock_timestamp(),
    constraint arrival_pkey primary key (target, stream_id, offsets),
    constraint half_open check (not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null)
);
create index arrival_order on arrival using gist (int4range(stream_id, stream_id, '[]'), offsets);

create table target_rows (
    batch_id bigint not null,
    token bigint not null,
    place integer not null,  -- in the definition's order, which is the staging tables'
    target text not null,
    stream_id integer not null,
    rows bigint not null,
    records bigint not null,  -- distinct ones among the rows; tombstones are none of them
    constraint target_rows_pkey primary key (batch_id, token, place, stream_id),
    constraint records_have_rows check (records >= 0 and records <= rows),
    constraint target_rows_place_check check (place >= 0),
    constraint target_rows_batch_id_stream_id_fkey foreign key (batch_id, stream_id)
        references batch_range(batch_id, stream_id),
    constraint target_rows_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token)
);

-- A run's key, as `call` keeps it for batches: whoever asks again under it finds what it has asked for.
create table request_call (
    pipeline text not null,
    key text not null,
    request_id bigint not null,
    at timestamptz not null default clock_timestamp(),
    constraint request_call_pkey primary key (pipeline, key, request_id),
    constraint request_call_pipeline_fkey foreign key (pipeline) references pipeline(name),
    constraint request_call_request_id_fkey foreign key (request_id) references request(request_id)
);
create index request_call_of_request on request_call (request_id);

-- The difference that a preview has found, under which code.
create table rehearsal (
    request_id bigint not null,
    content_hash text not null,
    difference jsonb not null,
    at timestamptz not null default clock_timestamp(),
    constraint rehearsal_pkey primary key (request_id),
    constraint rehearsal_request_id_fkey foreign key (request_id) references request(request_id)
);

create table complete_hour (
    pipeline text not null,
    until timestamptz not null,
    proof jsonb not null,  -- the batches that owned its offsets then, and the losses that may have held records of it
    at timestamptz not null default clock_timestamp(),
    constraint complete_hour_pkey primary key (pipeline, until),
    constraint hour_is_over check (until <= at),
    constraint whole_hour check (date_trunc('hour', (until at time zone 'UTC')) = (until at time zone 'UTC')),
    constraint complete_hour_pipeline_fkey foreign key (pipeline) references pipeline(name)
);

-- A row for each stream that was open, also where nothing came in that hour: the next hour goes on from there.
create table hour_offsets (
    pipeline text not null,
    until timestamptz not null,
    stream_id integer not null,
    from_offset bigint not null,
    until_offset bigint not null,
    constraint hour_offsets_pkey primary key (stream_id, until),
    constraint half_open check (0 <= from_offset and from_offset <= until_offset),
    constraint hour_offsets_pipeline_until_fkey foreign key (pipeline, until) references complete_hour(pipeline, until),
    constraint hour_offsets_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index offsets_of_hour on hour_offsets (pipeline, until);

create table hour_told (
    pipeline text not null,
    until timestamptz not null,
    told_by text not null,
    at timestamptz not null default clock_timestamp(),
    constraint hour_told_pkey primary key (pipeline, until, told_by),
    constraint hour_told_pipeline_until_fkey foreign key (pipeline, until) references complete_hour(pipeline, until)
);

-- The columns of an appended target that digests cover, as [name, type] in the order of hashing.
create table shape (
    shape_id integer not null generated always as identity,
    hash text not null,
    target text not null,
    columns jsonb not null,
    constraint shape_pkey primary key (shape_id),
    constraint one_shape unique (hash)
);

-- The digests that a committing transaction found: of the staged rows and rejects, and of the rows of an appended target.
create table content (
    batch_id bigint not null,
    stream_id integer not null,
    place integer not null,  -- in the definition's order of targets
    rows_digest numeric not null,
    rejects_digest numeric not null,
    shape_id integer,
    target_digest numeric,
    constraint content_pkey primary key (batch_id, stream_id, place),
    constraint appended_has_digest check ((shape_id is null) = (target_digest is null)),
    constraint content_place_check check (place >= 0),
    constraint content_batch_id_stream_id_fkey foreign key (batch_id, stream_id)
        references batch_range(batch_id, stream_id),
    constraint content_shape_id_fkey foreign key (shape_id) references shape(shape_id)
);

create table target_owner (
    store text not null,  -- empty: the ledger's own database; else the name of another Postgres
    target text not null,  -- schema.table, in lower case
    pipeline text not null,
    shared_with text[] not null default '{}'::text[],
    since timestamptz not null default clock_timestamp(),
    constraint target_owner_pkey primary key (store, target, pipeline),
    constraint shares_with_others check (pipeline <> all (shared_with)),
    constraint target_is_qualified check (target ~ '^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$'),
    constraint target_owner_pipeline_fkey foreign key (pipeline) references pipeline(name)
);
create unique index one_owner on target_owner (store, target) where shared_with = '{}'::text[];

create table link (
    pipeline text not null,
    number bigint not null,
    batch_id bigint,
    stream_id integer,
    decision_id bigint,
    digest text not null,  -- SHA-256, hexadecimal, of the digest before it, a line feed and the record
    at timestamptz not null default clock_timestamp(),
    constraint link_pkey primary key (pipeline, number),
    constraint decision_link_once unique (decision_id),
    constraint link_once unique (batch_id, stream_id),
    constraint link_number_check check (number > 0),
    constraint one_record check (num_nonnulls(batch_id, stream_id) = case when decision_id is null then 2 else 0 end),
    constraint link_batch_id_stream_id_fkey foreign key (batch_id, stream_id) references commit(batch_id, stream_id),
    constraint link_decision_id_fkey foreign key (decision_id) references decision(decision_id),
    constraint link_pipeline_fkey foreign key (pipeline) references pipeline(name)
);

-- What the next seal links.
create table unsealed (
    pipeline text not null,
    batch_id bigint,
    stream_id integer,
    decision_id bigint,
    constraint unsealed_pipeline_fkey foreign key (pipeline) references pipeline(name)
);
create index unsealed_of_pipeline on unsealed (pipeline);

-- Digests of keys are salted, once for each pipeline, so that one look at a record finds every erasure.
create table erasure_salt (
    pipeline text not null,
    salt bytea not null default sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'::name)),
    constraint erasure_salt_pkey primary key (pipeline),
    constraint erasure_salt_salt_check check (length(salt) = 32),
    constraint erasure_salt_pipeline_fkey foreign key (pipeline) references pipeline(name)
);

-- One key that was erased: in which column it stood, and its digest. Attempts that were opened before cannot commit.
create table erasure (
    erasure_id bigint not null generated always as identity,
    pipeline text not null,
    column_name text not null,
    as_uuid boolean not null,
    digest text not null,
    token bigint not null default nextval('token_seq'::regclass),
    at timestamptz not null default clock_timestamp(),
    constraint erasure_pkey primary key (erasure_id),
    constraint erasure_keeps_no_key check (digest ~ '^[0-9a-f]{64}$'),
    constraint erasure_pipeline_fkey foreign key (pipeline) references erasure_salt(pipeline)
);
create index erasure_of_key on erasure (pipeline, column_name, digest);

-- Records below these offsets stay out. Those behind them were produced after the erasure, and are taken.
create table erasure_bound (
    erasure_id bigint not null,
    topic_id text not null,
    partition integer not null,
    until_offset bigint not null,
    constraint erasure_bound_pkey primary key (erasure_id, topic_id, partition),
    constraint erasure_bound_until_offset_check check (until_offset >= 0),
    constraint erasure_bound_erasure_id_fkey foreign key (erasure_id) references erasure(erasure_id)
);

-- What was taken out, by the record it came from. The digest is of appended rows, where they had one.
create table erased (
    erasure_id bigint not null,
    relation text not null,  -- the target, lockstep.contribution or lockstep.reject
    target text not null,
    batch_id bigint not null,
    stream_id integer not null,
    "offset" bigint not null,
    rows bigint not null,
    digest numeric,
    constraint erased_pkey primary key (erasure_id, relation, target, batch_id, stream_id, "offset"),
    constraint erased_rows_check check (rows > 0),
    constraint erased_erasure_id_fkey foreign key (erasure_id) references erasure(erasure_id),
    constraint erased_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index erased_of_batch on erased (batch_id, stream_id);
create index erased_of_record on erased (stream_id, "offset");

-- From a target row's _stream to where it was read.
create view origin as
select stream_id as _stream, pipeline, cluster_id, topic, topic_id, partition, incarnation from stream;

create function guard_position() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        if new.position <> new.start_offset then
            raise exception 'no_gap: stream % is born at %, past its start %', new.stream_id, new.position, new.start_offset
                using errcode = '23514', constraint = 'no_gap';
        end if;
        return null;
    end if;
    if new.position < old.position then
        raise exception 'no_gap: the position of stream % moves back from % to %', new.stream_id, old.position, new.position
            using errcode = '23514', constraint = 'no_gap';
    end if;
    if new.position > old.position and not lockstep.covers(new.stream_id, int8range(old.position, new.position)) then
        raise exception 'no_gap: stream % moves over [%, %), which is not all covered',
            new.stream_id, old.position, new.position using errcode = '23514', constraint = 'no_gap';
    end if;
    return null;
end $$;
create constraint trigger no_gap after insert or update of "position" on stream
    deferrable initially deferred for each row execute function guard_position();

create function guard_coverage() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    covered int8multirange;
    passed int8range;
begin
    if tg_op in ('INSERT', 'UPDATE') then
        if upper(new.offsets) > (select s.position from lockstep.stream s where s.stream_id = new.stream_id) then
            raise exception 'not_past_position: stream % is covered by % past its position', new.stream_id, new.offsets
                using errcode = '23514', constraint = 'not_past_position';
        end if;
    end if;
    if tg_op in ('UPDATE', 'DELETE') then
        select old.offsets * int8range(s.start_offset, s.position) into passed
        from lockstep.stream s where s.stream_id = old.stream_id;
        if not isempty(passed) then
            select range_agg(c.offsets) into covered from lockstep.coverage c
            where int4range(c.stream_id, c.stream_id, '[]') && int4range(old.stream_id, old.stream_id, '[]')
              and c.offsets && passed;
            if covered is null or not covered @> passed then
                raise exception 'no_gap: coverage % of stream % is taken away below its position', passed, old.stream_id
                    using errcode = '23514', constraint = 'no_gap';
            end if;
        end if;
    end if;
    return null;
end $$;
create constraint trigger no_gap after insert or delete or update on coverage
    deferrable initially deferred for each row execute function guard_coverage();

create function guard_stream() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if (old.epoch, old.incarnation, old.start_offset, old.partition, old.topic, old.topic_id, old.cluster_id, old.pipeline)
        is distinct from
       (new.epoch, new.incarnation, new.start_offset, new.partition, new.topic, new.topic_id, new.cluster_id, new.pipeline) then
        raise exception 'closed_once: stream % is one incarnation for good', old.stream_id
            using errcode = '23514', constraint = 'closed_once';
    end if;
    if old.retired_at is not null then
        raise exception 'closed_once: stream % is retired', old.stream_id
            using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;
create trigger closed_once before update on stream
    for each row execute function guard_stream();

create function guard_batch() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if old.state <> 'planned' then
        raise exception 'closed_once: batch % is %', old.batch_id, old.state
            using errcode = '23514', constraint = 'closed_once';
    end if;
    if new.token < old.token then
        raise exception 'closed_once: the token of batch % goes back from % to %', old.batch_id, old.token, new.token
            using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;
create trigger closed_once before update on batch
    for each row execute function guard_batch();

-- A closed attempt's error may quote a value. An erasure alone may replace it.
create function guard_attempt() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if old.closed_at is not null and (
            current_user <> 'lockstep_owner' or new.error is distinct from 'erased'
            or to_jsonb(old) - 'error' <> to_jsonb(new) - 'error') then
        raise exception 'closed_once: attempt % of batch % is %', old.token, old.batch_id, old.state
            using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;
create trigger closed_once before update on attempt
    for each row execute function guard_attempt();

-- A batch closes whole; one that is abandoned keeps what tasks have committed of it, and what commits as a whole has nothing to
-- keep.
create function guard_closing() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select 1 from lockstep.claim c where c.batch_id = new.batch_id) then
        raise exception 'no_claim_left: batch % closes and still claims offsets', new.batch_id
            using errcode = '23514', constraint = 'no_claim_left';
    end if;
    if new.state = 'committed' and exists (
        select 1 from lockstep.batch_range r where r.batch_id = new.batch_id and not exists (
            select 1 from lockstep.commit c where c.batch_id = r.batch_id and c.stream_id = r.stream_id)) then
        raise exception 'committed_whole: batch % closes without a commit of each of its ranges', new.batch_id
            using errcode = '23514', constraint = 'committed_whole';
    end if;
    if new.state = 'abandoned' and exists (
        select 1 from lockstep.commit c join lockstep.attempt a using (batch_id, token)
        where c.batch_id = new.batch_id and a.unit = 'batch') then
        raise exception 'committed_whole: batch % was committed and cannot be abandoned', new.batch_id
            using errcode = '23514', constraint = 'committed_whole';
    end if;
    return null;
end $$;
create constraint trigger committed_whole after update of state on batch
    deferrable initially deferred for each row when (new.state <> 'planned') execute function guard_closing();

-- The fence. A task holds no lock of the batch, so the row is shared here until its COMMIT: no newer attempt opens in between.
create function guard_commit() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    newest bigint;
    found text;
begin
    if exists (
        select 1 from lockstep.attempt a where a.batch_id = new.batch_id and a.token = new.token and a.unit = 'stream') then
        select b.token, b.state into newest, found from lockstep.batch b where b.batch_id = new.batch_id for share;
    else
        select b.token, b.state into newest, found from lockstep.batch b where b.batch_id = new.batch_id;
    end if;
    if newest is distinct from new.token or found is distinct from 'planned' then
        raise exception 'newest_attempt: attempt % of batch % is not its newest', new.token, new.batch_id
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    if exists (
        select 1 from lockstep.batch b join lockstep.request r using (request_id)
        where b.batch_id = new.batch_id and r.preview) then
        raise exception 'preview_commits_nothing: batch % is a preview', new.batch_id
            using errcode = '23514', constraint = 'preview_commits_nothing';
    end if;
    if exists (
        select 1 from lockstep.result u join lockstep.batch_range g using (batch_id, stream_id)
        where u.batch_id = new.batch_id and u.token = new.token and u.stream_id = new.stream_id
          and u.log_start_after > lower(g.offsets)) then
        raise exception 'read_whole: stream % of batch % was trimmed while it was read', new.stream_id, new.batch_id
            using errcode = '23514', constraint = 'read_whole';
    end if;
    return new;
end $$;
create trigger newest_attempt before insert on commit
    for each row execute function guard_commit();

create function guard_request() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if old.closed_at is not null then
        raise exception 'closed_once: request % is closed', old.request_id using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;
create trigger closed_once before update on request
    for each row execute function guard_request();

-- What was accepted as lost stays lost: no lane may take it for covered again.
create function guard_loss() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'loss_stays: % of stream % was accepted as lost', old.offsets, old.stream_id
        using errcode = '23514', constraint = 'loss_stays';
end $$;
create trigger loss_stays before delete or update on coverage
    for each row when (old.kind = 'loss') execute function guard_loss();

create function covers(stream integer, wanted int8range) returns boolean
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
declare
    first_one bigint;  -- where the row begins that holds the first offset
    covered int8multirange;
begin
    select lower(c.offsets) into first_one from lockstep.coverage c
    where c.stream_id = stream and lower(c.offsets) <= lower(wanted) order by lower(c.offsets) desc limit 1;
    select range_agg(c.offsets) into covered from lockstep.coverage c
    where c.stream_id = stream and lower(c.offsets) >= first_one and lower(c.offsets) < upper(wanted);
    return coalesce(covered @> wanted, false);
end $$;

-- Every segment that a batch owns today. Segments are never split, so a newer one that overlaps an older one holds it whole.
create view segment as
select stream_id, offsets, batch_id, token
from (select r.stream_id, r.offsets, m.batch_id, m.token, max(upper(r.offsets)) over (
          partition by r.stream_id order by lower(r.offsets), upper(r.offsets) desc, m.token desc
          rows between unbounded preceding and 1 preceding) as reached
      from lockstep.batch_range r join lockstep.commit m using (batch_id, stream_id)) committed
where reached is null or reached < upper(offsets);

-- Only a batch under way contributes, and only from the streams it reads. Asked once per statement: there may be a row per key.
create function guard_contribution() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    select a.batch_id, a.stream_id into stray from (select distinct batch_id, stream_id from added) a
    where not exists (select 1 from lockstep.claim k where k.batch_id = a.batch_id and k.stream_id = a.stream_id) limit 1;
    if found then
        raise exception 'contributes_what_it_claims: batch % claims nothing of stream %', stray.batch_id, stray.stream_id
            using errcode = '23514', constraint = 'contributes_what_it_claims';
    end if;
    return null;
end $$;
create trigger contributes_what_it_claims after insert on contribution referencing new table as added
    for each statement execute function guard_contribution();

-- Who takes a segment over has taken its contributions out. Upkeep takes nothing over: whose row of coverage only became part
-- of a longer one still owns its offsets, and what it contributed still counts.
create function guard_withdrawn() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (
        select 1 from lockstep.contribution x where x.batch_id = old.batch_id and x.stream_id = old.stream_id) and exists (
        select 1 from (
            select c.batch_id from lockstep.coverage c
            where c.stream_id = old.stream_id and lower(c.offsets) <= lower(old.offsets)
            order by lower(c.offsets) desc limit 1) heir
        join lockstep.batch_range r on r.batch_id = heir.batch_id and r.stream_id = old.stream_id
        where heir.batch_id <> old.batch_id and r.offsets && old.offsets) then
        raise exception 'withdrawn_whole: % of stream % is taken over, and what batch % contributed still counts',
            old.offsets, old.stream_id, old.batch_id using errcode = '23514', constraint = 'withdrawn_whole';
    end if;
    return null;
end $$;
create constraint trigger withdrawn_whole after delete or update on coverage
    deferrable initially deferred for each row when (old.kind = 'batch') execute function guard_withdrawn();

create function guarantee_of(attempt_batch bigint, attempt_token bigint) returns text
    language sql stable security definer
    set search_path = pg_catalog, pg_temp as $$
    select d.document -> 'guarantee' ->> 'kind' from lockstep.attempt a join lockstep.definition d using (definition_hash)
    where a.batch_id = attempt_batch and a.token = attempt_token
$$;

-- Results first: no offset is committed whose results the store has not confirmed. A look for each statement, not for each row.
create function guard_results() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    early record;
begin
    select c.batch_id, c.token into early from (select distinct batch_id, token from added) c
    where lockstep.guarantee_of(c.batch_id, c.token) in ('Idempotent', 'AtLeastOnce')
      and not exists (select 1 from lockstep.delivery y where y.batch_id = c.batch_id and y.token = c.token) limit 1;
    if found then
        raise exception 'results_first: batch % commits offsets, and its results were not delivered by attempt %',
            early.batch_id, early.token using errcode = '23514', constraint = 'results_first';
    end if;
    return null;
end $$;
create trigger results_first after insert on commit referencing new table as added
    for each statement execute function guard_results();

-- Offsets first: at most once, nothing is confirmed as delivered before its offsets are committed, by that very attempt.
create function guard_delivery() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if lockstep.guarantee_of(new.batch_id, new.token) = 'AtMostOnce' and not exists (
        select 1 from lockstep.commit c where c.batch_id = new.batch_id and c.token = new.token) then
        raise exception 'offsets_first: attempt % of batch % has not committed its offsets', new.token, new.batch_id
            using errcode = '23514', constraint = 'offsets_first';
    end if;
    return new;
end $$;
create trigger offsets_first before insert on delivery
    for each row execute function guard_delivery();

-- What is committed is what all targets were given: no row beside them, and none of a target left out.
create function guard_target_rows() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if exists (
        select 1 from lockstep.target_rows p join lockstep.result u using (batch_id, token, stream_id)
        where p.batch_id = new.batch_id and p.token = new.token and p.stream_id = new.stream_id
        group by u.rows having sum(p.rows) <> u.rows)
       or exists (
        select 1 from (select distinct place from lockstep.target_rows where batch_id = new.batch_id and token = new.token) t
        where not exists (
            select 1 from lockstep.target_rows p where p.batch_id = new.batch_id and p.token = new.token
              and p.place = t.place and p.stream_id = new.stream_id)) then
        raise exception 'every_target: the rows of stream % of batch % are not those of its targets', new.stream_id, new.batch_id
            using errcode = '23514', constraint = 'every_target';
    end if;
    return new;
end $$;
create trigger every_target before insert on commit
    for each row execute function guard_target_rows();

-- Only a preview is rehearsed: what was shown has changed nothing.
create function guard_rehearsal() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (select 1 from lockstep.request r where r.request_id = new.request_id and r.preview) then
        raise exception 'rehearsed_is_preview: request % is no preview', new.request_id
            using errcode = '23514', constraint = 'rehearsed_is_preview';
    end if;
    return new;
end $$;
create trigger rehearsed_is_preview before insert on rehearsal
    for each row execute function guard_rehearsal();

create function guard_hour() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    last timestamptz;
begin
    select max(h.until) into last from lockstep.complete_hour h where h.pipeline = new.pipeline;
    if new.until <> last + interval '1 hour' then
        raise exception 'hours_in_order: the hour until % of % comes behind the one until %', new.until, new.pipeline, last
            using errcode = '23514', constraint = 'hours_in_order';
    end if;
    return new;
end $$;
create trigger hours_in_order before insert on complete_hour
    for each row execute function guard_hour();

-- Nobody reads on in a stream whose partition has another incarnation now.
create function is_gone(stream integer) returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
    select not exists (
        select 1 from lockstep.stream s join lockstep.stream o on o.pipeline = s.pipeline and o.topic = s.topic
            and o.partition = s.partition and o.incarnation = s.incarnation
        where s.stream_id = stream and o.retired_at is null)
$$;

-- Hours tile, stream by stream, and a batch or a loss has each of their offsets. A look for each statement, not for each row.
create function guard_hour_offsets() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.*, l.reached into wrong from added a join lockstep.stream s using (stream_id)
    left join lateral (
        select h.until_offset from lockstep.hour_offsets h
        where h.stream_id = a.stream_id and h.until < a.until order by h.until desc limit 1) p on true
    cross join lateral (
        select coalesce(p.until_offset, case when exists (
            select 1 from lockstep.complete_hour h where h.pipeline = a.pipeline and h.until < a.until)
            then s.start_offset end) as reached) l
    where s.pipeline <> a.pipeline or a.from_offset <> l.reached limit 1;
    if found then
        raise exception 'hours_tile: the hour until % begins at % of stream %, and those before it end at %',
            wrong.until, wrong.from_offset, wrong.stream_id, wrong.reached using errcode = '23514', constraint = 'hours_tile';
    end if;
    select a.*, s.position, m.missing into wrong from added a join lockstep.stream s using (stream_id)
    cross join lateral (
        select int8multirange(int8range(a.from_offset, a.until_offset)) - coalesce(range_agg(c.offsets), '{}') as missing
        from lockstep.coverage c
        where c.stream_id = a.stream_id and (c.kind <> 'skipped' or lockstep.is_gone(a.stream_id))
          and lower(c.offsets) < a.until_offset and lower(c.offsets) >= coalesce((
            select lower(p.offsets) from lockstep.coverage p
            where p.stream_id = a.stream_id and lower(p.offsets) <= a.from_offset order by lower(p.offsets) desc limit 1), 0)) m
    where s.position < a.until_offset or not isempty(m.missing) limit 1;
    if found then
        raise exception 'hour_is_covered: % of stream %, which is at %, is missing in the hour until %',
            wrong.missing, wrong.stream_id, wrong.position, wrong.until
            using errcode = '23514', constraint = 'hour_is_covered';
    end if;
    return null;
end $$;
create trigger hour_is_covered after insert on hour_offsets referencing new table as added
    for each statement execute function guard_hour_offsets();

create function guard_whole_hour() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (
        select 1 from lockstep.stream s where s.pipeline = new.pipeline and s.retired_at is null and not exists (
            select 1 from lockstep.hour_offsets o where o.stream_id = s.stream_id and o.until = new.until)) then
        raise exception 'hour_is_whole: the hour until % of % says nothing of an open stream', new.until, new.pipeline
            using errcode = '23514', constraint = 'hour_is_whole';
    end if;
    return null;
end $$;
create constraint trigger hour_is_whole after insert on complete_hour
    deferrable initially deferred for each row execute function guard_whole_hour();

-- Whether each batch has a partition of the table to itself.
create function is_by_batch(target regclass) returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from pg_partitioned_table p join pg_attribute a on a.attrelid = p.partrelid and a.attname = '_batch'
        where p.partrelid = target and p.partstrat = 'l' and p.partnatts = 1 and p.partattrs[0] = a.attnum)
$$;

-- What the batch's partition of a table is called. Only the newest attempt, validated, of a planned batch has one.
create function partition_name(target regclass, of_batch bigint, of_token bigint) returns name
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select 1 from lockstep.batch b join lockstep.attempt a using (batch_id, token)
        where b.batch_id = of_batch and b.token = of_token and b.state = 'planned' and a.state = 'validated') then
        raise exception 'newest_attempt: attempt % of batch % is not its newest, or not validated', of_token, of_batch
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    return (select left(relname, 62 - length(of_batch::text)) || '_' || of_batch from pg_class where oid = target);
end $$;

-- An empty partition for the batch. It is made beside the table and attached: readers of the table are not waited for.
create function make_partition(target regclass, of_batch bigint, of_token bigint) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    called text := format('%s.%I', (select relnamespace::regnamespace from pg_class where oid = target),
        lockstep.partition_name(target, of_batch, of_token));
begin
    perform lockstep.guard_target(target);
    execute format('create table %s (like %s including defaults including generated including constraints including storage)',
        called, target);
    execute format('alter table %s owner to %s', called, (select relowner::regrole from pg_class where oid = target));
    execute format('alter table %s attach partition %s for values in (%s)', target, called, of_batch);
end $$;

-- The staged table is the ledger's owner's until it lies beside its target: nobody else may create among the staged rows. It is
-- the target's owner's before it is attached: whatever then runs for its indexes runs as that one.
create function attach_staged(target regclass, staged regclass, of_batch bigint, of_token bigint) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    called name := lockstep.partition_name(target, of_batch, of_token);
    changes text;
    staged_rows bigint;
    won_rows bigint;
begin
    perform lockstep.guard_target(target);
    if (select relnamespace <> 'lockstep_staging'::regnamespace
            or not starts_with(relname || '_', format('attempt_%s_%s_', of_batch, of_token))
        from pg_class where oid = staged) then
        raise exception 'own_staging: attempt % of batch % has not staged %', of_token, of_batch, staged
            using errcode = '23514', constraint = 'own_staging';
    end if;
    execute format('alter table %s owner to %I', staged, current_user);
    perform lockstep.guard_plain(staged, target);  -- its stager can change nothing of it any more
    execute format('select count(*) from %s', staged) into staged_rows;
    -- one target has no row in target_rows, and all rows of the result
    select coalesce(
        (select sum(p.rows) from lockstep.target_rows p
         where p.batch_id = of_batch and p.token = of_token and to_regclass(p.target) = attach_staged.target),
        (select sum(r.rows) from lockstep.result r where r.batch_id = of_batch and r.token = of_token), 0) into won_rows;
    if staged_rows <> won_rows then
        execute format('delete from %s t where t._reason is not null or not exists (
            select 1 from lockstep.manifest m where m.batch_id = %s and m.token = %s and m.task = t._task)',
            staged, of_batch, of_token);
    end if;
    select string_agg(change, ', ') into changes from (
        select format('drop column %I', s.attname) as change from pg_attribute s
        where s.attrelid = staged and s.attnum > 0 and not s.attisdropped and s.attname not in (
            select t.attname from pg_attribute t where t.attrelid = target and t.attnum > 0 and not t.attisdropped)
        union all
        select format('alter column %I set not null', t.attname) from pg_attribute t
        where t.attrelid = target and t.attnum > 0 and not t.attisdropped and t.attnotnull and t.attname <> '_batch') c;
    execute format('alter table %s %s, add column _batch bigint not null default %s, add constraint its_batch check (_batch = %s)',
        staged, changes, of_batch, of_batch);
    execute format('alter table %s set schema %s', staged, (select relnamespace::regnamespace from pg_class where oid = target));
    execute format('alter table %s rename to %I', staged, called);
    execute format('alter table %s owner to %s', staged, (select relowner::regrole from pg_class where oid = target));
    execute format('alter table %s attach partition %s for values in (%s)', target, staged, of_batch);
    execute format('alter table %s drop constraint its_batch', staged);
end $$;

-- A recreated topic or a truncated log gives its partitions a new incarnation. A successor by growth keeps the old one.
create function is_replaced(stream integer) returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select 1 from lockstep.stream s join lockstep.stream n on n.pipeline = s.pipeline and n.topic = s.topic
            and n.partition = s.partition and n.incarnation > s.incarnation
        where s.stream_id = stream)
$$;

-- Below this offset a truncated log holds records that an older incarnation has read; 0 where there is none.
create function read_before(stream integer) returns bigint language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(min(i.start_offset), 0) from lockstep.stream s join lockstep.stream i on i.pipeline = s.pipeline
        and i.topic = s.topic and i.partition = s.partition and i.incarnation = s.incarnation
    where s.stream_id = stream and exists (
        select 1 from lockstep.stream o where o.pipeline = s.pipeline and o.topic = s.topic and o.partition = s.partition
            and o.incarnation < s.incarnation and (o.cluster_id, o.topic_id) = (s.cluster_id, s.topic_id))
$$;

-- One look for each statement: a batch claims, and a time is resolved for, many streams at once.
create function guard_claimed_log() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.stream_id, a.offsets, s.start_offset, lockstep.is_replaced(s.stream_id) as replaced into wrong
    from added a join lockstep.stream s using (stream_id)
    where lockstep.is_replaced(s.stream_id) or lower(a.offsets) < lockstep.read_before(s.stream_id) limit 1;
    if found and wrong.replaced then
        raise exception 'one_log: % of stream % cannot be read again: its partition has a newer incarnation',
            wrong.offsets, wrong.stream_id using errcode = '23514', constraint = 'one_log';
    elsif found then
        raise exception 'one_log: % of stream % begins before its start %, where an older incarnation of the log was read',
            wrong.offsets, wrong.stream_id, wrong.start_offset using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
create trigger one_log after insert on claim referencing new table as added
    for each statement execute function guard_claimed_log();

create function guard_resolved_log() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.stream_id, a.at into wrong from added a where lockstep.is_replaced(a.stream_id) limit 1;
    if found then
        raise exception 'one_log: % is no time of stream %: its partition has a newer incarnation', wrong.at, wrong.stream_id
            using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
create trigger one_log after insert on boundary referencing new table as added
    for each statement execute function guard_resolved_log();

-- Losses and skips speak of the log that is there.
create function guard_decided_log() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if lockstep.is_replaced(new.stream_id) then
        raise exception 'one_log: % of stream % is no % of today''s log: its partition has a newer incarnation',
            new.offsets, new.stream_id, new.kind using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
create trigger one_log after insert on coverage
    for each row when (new.kind <> 'batch') execute function guard_decided_log();

-- A new incarnation frees what the older ones had claimed, and one incarnation is one log.
create function guard_incarnation() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.stream_id, o.stream_id as other, a.incarnation > o.incarnation as newer into wrong
    from added a join lockstep.stream o on o.pipeline = a.pipeline and o.topic = a.topic and o.partition = a.partition
    where (o.incarnation = a.incarnation and (o.cluster_id, o.topic_id) <> (a.cluster_id, a.topic_id))
       or o.incarnation > a.incarnation
       or (o.incarnation < a.incarnation and exists (select 1 from lockstep.claim k where k.stream_id = o.stream_id))
    limit 1;
    if found then
        raise exception 'one_log: stream % follows stream %, %', wrong.stream_id, wrong.other,
            case when wrong.newer then 'which a batch still claims' else 'which is of a newer or of another log' end
            using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
create trigger one_log after insert on stream referencing new table as added
    for each statement execute function guard_incarnation();

create function guard_fence() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'nonce_with_token: the nonce of batch % changes without its token', old.batch_id
        using errcode = '23514', constraint = 'nonce_with_token';
end $$;
create trigger nonce_with_token before update of nonce on batch
    for each row when (old.nonce is distinct from new.nonce and old.token = new.token) execute function guard_fence();

create function guard_timeline() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select 1 from lockstep.attempt a
        where a.batch_id = new.batch_id and a.token = new.token and a.nonce is not distinct from new.nonce) then
        raise exception 'same_timeline: attempt % of batch % was opened in another timeline of the ledger',
            new.token, new.batch_id using errcode = '23514', constraint = 'same_timeline';
    end if;
    return new;
end $$;
create trigger same_timeline before insert on commit
    for each row execute function guard_timeline();
create trigger same_timeline before insert on delivery
    for each row execute function guard_timeline();

-- The name of an attempt's first staging table; the names of its other tables begin with it.
create function staging_name(of_batch bigint, of_token bigint, its_nonce uuid) returns text
    language sql immutable
    set search_path = pg_catalog, pg_temp as $$
    select format('attempt_%s_%s', of_batch, of_token) || coalesce('_' || left(replace(its_nonce::text, '-', ''), 12), '')
$$;

-- Only the attempt's own tables become partitions.
create function guard_staged(staged regclass, of_batch bigint, of_token bigint) returns regclass
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select 1 from pg_catalog.pg_class c, lockstep.attempt a
        where c.oid = staged and a.batch_id = of_batch and a.token = of_token
          and starts_with(c.relname || '_', lockstep.staging_name(a.batch_id, a.token, a.nonce) || '_')) then
        raise exception 'own_staging: attempt % of batch % has not staged %', of_token, of_batch, staged
            using errcode = '23514', constraint = 'own_staging';
    end if;
    return staged;
end $$;

-- After a restore: what is drawn from now on lies past everything that other places have seen. Never goes back.
create function pass_over(seen_token bigint, seen_batch bigint, seen_stream bigint) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    room constant bigint := 1000;  -- for what nobody can see, and for who draws meanwhile
begin
    perform pg_advisory_xact_lock(hashtextextended('lockstep.pass_over', 0));
    if seen_token + room > nextval('lockstep.token_seq') then
        perform setval('lockstep.token_seq', seen_token + room);
    end if;
    if seen_batch + room > nextval(pg_get_serial_sequence('lockstep.batch', 'batch_id')) then
        perform setval(pg_get_serial_sequence('lockstep.batch', 'batch_id'), seen_batch + room);
    end if;
    if seen_stream >= nextval(pg_get_serial_sequence('lockstep.stream', 'stream_id')) then
        perform setval(pg_get_serial_sequence('lockstep.stream', 'stream_id'), seen_stream);
    end if;
end $$;

-- Each session says which version of the ledger its code is made for; code from before migration 0019 says nothing.
create function guard_version() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    found int := (select max(m.version) from lockstep.migration m);
    made_for text := coalesce(nullif(current_setting('lockstep.ledger_version', true), ''), 'a version below 19');
begin
    if made_for <> found::text then
        raise exception 'one_version: the ledger is at version %, this code is made for %: %', found, made_for,
            case when made_for ~ '^\d+$' and made_for::numeric > found then 'run lockstep migrate'
                 else 'update lockstep on this machine' end
            using errcode = '23514', constraint = 'one_version';
    end if;
    return null;
end $$;
create trigger one_version before insert on batch
    for each statement execute function guard_version();
create trigger one_version before insert on request
    for each statement execute function guard_version();
create trigger one_version before insert on decision
    for each statement execute function guard_version();
create trigger one_version before insert on attempt
    for each statement execute function guard_version();
create trigger one_version before insert on verdict
    for each statement execute function guard_version();
create trigger one_version before insert on commit
    for each statement execute function guard_version();
create trigger one_version before insert on coverage
    for each statement execute function guard_version();

-- The partition of a batch that owns no offsets any more: it is empty, and it goes. Whoever reads the table is waited for as
-- long as the caller's lock_timeout says; a partition that holds a row, or several batches' rows, stays.
create function drop_replaced_partition(target regclass, part regclass) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp set row_security = off as $$
declare
    of_batch bigint := (select substring(pg_get_expr(c.relpartbound, c.oid) from $re$^FOR VALUES IN \('?(\d+)'?\)$re$)::bigint
        from pg_class c join pg_inherits i on i.inhrelid = c.oid where c.oid = part and i.inhparent = target);
    is_empty boolean;
begin
    if of_batch is null or not lockstep.is_own_target(target)
            or not exists (select from lockstep.batch b where b.batch_id = of_batch and b.state <> 'planned')
            or exists (select from lockstep.coverage c where c.batch_id = of_batch) then
        return false;
    end if;
    execute format('select not exists (select from %s)', part) into is_empty;
    if not is_empty then
        return false;
    end if;
    execute format('lock table only %s in access exclusive mode', target);
    execute format('lock table only %s in access exclusive mode', part);
    execute format('select not exists (select from %s)', part) into is_empty;
    if is_empty then
        execute format('drop table %s', part);
    end if;
    return is_empty;
end $$;

-- Executors hold the credentials of tasks: a task takes away coverage and claims, and moves a position, only where its own
-- batch has a claim, while the newest attempt of that batch is open and commits stream by stream.
create function guard_task() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    touched int8range;
    is_own boolean;
begin
    if tg_table_name = 'stream' then
        touched := int8range(old.position, new.position);
    else
        touched := old.offsets;
    end if;
    select exists (
        select from lockstep.claim k join lockstep.batch b using (batch_id)
        join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token
        where k.stream_id = old.stream_id and b.state = 'planned' and a.state = 'open' and a.unit = 'stream'
          and case tg_table_name when 'coverage' then k.expects <> 'nothing' and k.offsets && touched
              else k.offsets = touched end) into is_own;
    if not is_own then
        raise exception 'own_range: a task may not change % of stream %: no open attempt that commits by stream claims it',
            tg_table_name, old.stream_id using errcode = '23514', constraint = 'own_range';
    end if;
    if tg_op = 'DELETE' then
        return old;
    end if;
    return new;
end $$;
create trigger own_range before delete on coverage
    for each row when (current_user = 'lockstep_partition'::name) execute function guard_task();
create trigger own_range before delete on claim
    for each row when (current_user = 'lockstep_partition'::name) execute function guard_task();
create trigger own_range before update of "position" on stream
    for each row when (current_user = 'lockstep_partition'::name) execute function guard_task();

-- A commit publishes the contents that were staged. One look for each statement, not for each row.
create function guard_contents() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select u.batch_id, u.stream_id into wrong from added a join lockstep.result u using (batch_id, token, stream_id)
    where u.rows_digest is null or u.rejects_digest is null limit 1;
    if found then
        raise exception 'contents_known: stream % of batch % has no digest of its contents', wrong.stream_id, wrong.batch_id
            using errcode = '23514', constraint = 'contents_known';
    end if;
    select u.batch_id, u.stream_id into wrong from added a join lockstep.result u using (batch_id, token, stream_id)
    left join (
        select c.batch_id, c.stream_id, pg_catalog.sum(c.rows_digest) as rows, pg_catalog.sum(c.rejects_digest) as rejects
        from lockstep.content c where (c.batch_id, c.stream_id) in (select batch_id, stream_id from added)
        group by 1, 2) p using (batch_id, stream_id)
    left join (
        select m.batch_id, m.token, m.stream_id,
            pg_catalog.sum(m.rows_digest) as rows, pg_catalog.sum(m.rejects_digest) as rejects
        from lockstep.manifest m where (m.batch_id, m.token, m.stream_id) in (select batch_id, token, stream_id from added)
        group by 1, 2, 3) s using (batch_id, token, stream_id)
    where (coalesce(p.rows, 0), coalesce(p.rejects, 0)) <> (u.rows_digest, u.rejects_digest)
       or (u.quarantined = 0 and (coalesce(s.rows, 0), coalesce(s.rejects, 0)) <> (u.rows_digest, u.rejects_digest))
    limit 1;
    if found then
        raise exception 'contents_unchanged: the contents of stream % of batch % are not those that were staged',
            wrong.stream_id, wrong.batch_id using errcode = '23514', constraint = 'contents_unchanged';
    end if;
    return null;
end $$;
create trigger contents_unchanged after insert on commit referencing new table as added
    for each statement execute function guard_contents();

-- Owners of one table name one another. Registrations of one table wait for each other.
create function guard_owner() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    other record;
begin
    perform pg_advisory_xact_lock(hashtextextended('lockstep.owner ' || new.store || ' ' || new.target, 0));
    select o.pipeline into other from lockstep.target_owner o
    where o.store = new.store and o.target = new.target and o.pipeline <> new.pipeline
      and not (o.pipeline = any(new.shared_with) and new.pipeline = any(o.shared_with)) limit 1;
    if found then
        raise exception 'owned_once: % belongs to %, and % and % do not both say that they share it',
            new.target, other.pipeline, new.pipeline, other.pipeline using errcode = '23514', constraint = 'owned_once';
    end if;
    return new;
end $$;
create trigger owned_once before insert or update on target_owner
    for each row execute function guard_owner();

-- The tables that a definition writes, with the store that they are in; files lie in a folder of the pipeline's name.
create function written_tables(document jsonb) returns table(store text, target text)
    language sql immutable
    set search_path = pg_catalog, pg_temp as $$
    select coalesce(document -> 'store' ->> 'name', ''), t #>> '{}'
    from jsonb_path_query(document, '$.target[*].table') t
    where coalesce(document -> 'store' ->> 'kind', 'Postgres') <> 'Files'
$$;

-- No commit into a table that belongs to other pipelines, whoever was its owner when the batch was planned.
create function guard_owned_commit() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    foreign_table record;
begin
    select d.pipeline, w.target into foreign_table
    from (select distinct batch_id, token from added) c
    join lockstep.attempt a using (batch_id, token) join lockstep.definition d using (definition_hash)
    cross join lateral lockstep.written_tables(d.document) w
    where exists (select 1 from lockstep.target_owner o where o.store = w.store and o.target = w.target)
      and not exists (
        select 1 from lockstep.target_owner o where o.store = w.store and o.target = w.target and o.pipeline = d.pipeline)
    limit 1;
    if found then
        raise exception 'commit_by_owner: % belongs to another pipeline than %', foreign_table.target, foreign_table.pipeline
            using errcode = '23514', constraint = 'commit_by_owner';
    end if;
    return null;
end $$;
create trigger commit_by_owner after insert on commit referencing new table as added
    for each statement execute function guard_owned_commit();

-- Who has committed into a table, by the definitions of what was committed: what a ledger knows that is older than this.
create view target_writer as
select distinct w.store, w.target, d.pipeline
from lockstep.definition d cross join lateral lockstep.written_tables(d.document) w
where exists (
    select 1 from lockstep.attempt a join lockstep.commit c using (batch_id, token) where a.definition_hash = d.definition_hash);

-- A deletion is not forgotten while an unfinished batch holds older records that it alone keeps dead. A replay of the deletion
-- itself takes it out and puts it back.
create function guard_tombstone() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (
        select 1 from lockstep.claim k
        where k.stream_id = old.stream_id and lower(k.offsets) <= old."offset" and upper(k.offsets) > old."offset") then
        return old;
    end if;
    if exists (
        select 1 from lockstep.claim k join lockstep.stream s using (stream_id)
        join lockstep.stream its on its.stream_id = old.stream_id and its.pipeline = s.pipeline
        where (k.stream_id = old.stream_id and upper(k.offsets) <= old."offset") or s.epoch < its.epoch) then
        raise exception 'dead_stay_dead: a batch under way reads records older than the deletion at offset % of stream %',
            old."offset", old.stream_id using errcode = '23514', constraint = 'dead_stay_dead';
    end if;
    return old;
end $$;
create trigger dead_stay_dead before delete on tombstone
    for each row execute function guard_tombstone();

-- The functions of the owner that work on a table touch only the owner's: partition keys and policies run code.
create function is_own_target(target regclass) returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
    select lockstep.is_by_batch(target) and (
        select pg_has_role(current_user, c.relowner, 'USAGE') and c.relowner <> all (array[
            'lockstep_planner'::regrole, 'lockstep_stager'::regrole, 'lockstep_committer'::regrole,
            'lockstep_partition'::regrole, 'lockstep_reader'::regrole]::oid[])
        from pg_class c where c.oid = target)
$$;

create function guard_target(target regclass) returns void language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if lockstep.is_own_target(target) is not true then
        raise exception 'own_target: % is no table of the owner''s that is partitioned by batch', target
            using errcode = '23514', constraint = 'own_target';
    end if;
end $$;

-- What is attached holds rows and nothing else: whatever its stager hung on it would run as the owner.
create function guard_plain(staged regclass, target regclass) returns void
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select from pg_class c where c.oid = staged and c.relkind = 'r' and not c.relrowsecurity and not c.relhasrules
          and not exists (select from pg_trigger t where t.tgrelid = c.oid)
          and not exists (select from pg_policy p where p.polrelid = c.oid)
          and not exists (select from pg_index i where i.indrelid = c.oid)
          and not exists (select from pg_statistic_ext x where x.stxrelid = c.oid)
          and not exists (select from pg_inherits i where c.oid in (i.inhrelid, i.inhparent))
          and not exists (select from pg_constraint k where k.conrelid = c.oid and k.contype <> 'n')
          and not exists (select from pg_attrdef d where d.adrelid = c.oid)
          and not exists (
            select from pg_attribute a join pg_type y on y.oid = a.atttypid
            where a.attrelid = c.oid and a.attnum > 0 and y.typnamespace <> 'pg_catalog'::regnamespace and not exists (
                select from pg_attribute t
                where t.attrelid = target and t.attname = a.attname and t.atttypid = a.atttypid))) then
        raise exception 'own_staging: % is more than a table of rows', staged
            using errcode = '23514', constraint = 'own_staging';
    end if;
end $$;

-- The login, its address and its program are the server's knowledge, whatever the statement says. The user of the operating
-- system is the client's word: the code asks the kernel for it, not the environment.
create function record_session() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    new.login := session_user;
    new.client := inet_client_addr();
    new.program := nullif(current_setting('application_name'), '');
    new.os_user := nullif(current_setting('lockstep.os_user', true), '');
    return new;
end $$;
create trigger recorded_session before insert on decision
    for each row execute function record_session();
create trigger recorded_session before insert on request
    for each row execute function record_session();

-- The record of a commit: what it read, what it wrote, with which code and verdict. Its text is what a link digests, and what a
-- certificate shows. Large numbers are text: not every reader of JSON keeps their digits.
create view committed_record as
select c.batch_id, c.stream_id, b.pipeline, b.state, c.at, jsonb_build_object(
    'record', 'commit', 'pipeline', b.pipeline, 'batch', b.batch_id, 'lane', b.lane,
    'cluster_id', s.cluster_id, 'topic', s.topic, 'topic_id', s.topic_id, 'partition', s.partition,
    'stream', s.stream_id, 'from_offset', lower(r.offsets), 'until_offset', upper(r.offsets),
    'attempt', c.token, 'nonce', c.nonce, 'definition', c.definition_hash,
    'delivered', u.delivered, 'written', u.written, 'filtered', u.filtered, 'rejected', u.rejected, 'rows', u.rows,
    'offsets_digest', u.digest_sum::text || ':' || u.digest_squares::text,
    'rows_digest', u.rows_digest::text, 'rejects_digest', u.rejects_digest::text,
    'targets', coalesce(t.targets, '[]'), 'suite', v.suite, 'passed', v.success,
    'verdict', coalesce(v.erased_digest, encode(sha256(convert_to(v.result::text, 'UTF8')), 'hex')),
    'at', to_char(c.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as record
from commit c
join batch b on b.batch_id = c.batch_id
join stream s on s.stream_id = c.stream_id
join batch_range r on r.batch_id = c.batch_id and r.stream_id = c.stream_id
join result u on u.batch_id = c.batch_id and u.token = c.token and u.stream_id = c.stream_id
left join verdict v on v.batch_id = c.batch_id and v.token = c.token
left join lateral (
    select jsonb_agg(jsonb_build_object(
        'place', n.place, 'target', h.target, 'rows_digest', n.rows_digest::text,
        'rejects_digest', n.rejects_digest::text, 'target_digest', n.target_digest::text) order by n.place) as targets
    from content n left join shape h using (shape_id)
    where n.batch_id = c.batch_id and n.stream_id = c.stream_id) t on true;

create view decided_record as
select d.decision_id, d.pipeline, d.at, jsonb_build_object(
    'record', 'decision', 'pipeline', d.pipeline, 'decision', d.decision_id, 'kind', d.kind, 'who', d.who, 'why', d.why,
    'login', d.login, 'client', d.client, 'program', d.program, 'os_user', d.os_user, 'detail', d.detail, 'at', to_char(d.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as record
from decision d;

create function note_commits() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into lockstep.unsealed (pipeline, batch_id, stream_id)
    select b.pipeline, a.batch_id, a.stream_id from added a join lockstep.batch b using (batch_id);
    return null;
end $$;
create trigger noted_for_the_chain after insert on commit referencing new table as added
    for each statement execute function note_commits();

create function note_decisions() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into lockstep.unsealed (pipeline, decision_id) select a.pipeline, a.decision_id from added a;
    return null;
end $$;
create trigger noted_for_the_chain after insert on decision referencing new table as added
    for each statement execute function note_decisions();

-- Links what waits, the oldest first and at most so many; returns how many. A batch that is not closed waits: tasks still
-- commit ranges of it. Only this function writes links: no role may. Its joins are written in the order that suits them, and
-- planned once: a search for another order costs more than the work.
create function seal(of_pipeline text, most integer) returns integer
    language plpgsql security definer set join_collapse_limit = 1 set plan_cache_mode = force_generic_plan
    set search_path = pg_catalog, pg_temp as $$
declare
    last_number bigint;
    last_digest text;
    of_link text;
    waits record;
    links int := 0;
begin
    perform from lockstep.pipeline where name = of_pipeline for no key update;
    select number, digest into last_number, last_digest
    from lockstep.link where pipeline = of_pipeline order by number desc limit 1;
    if not found then
        last_number := 0;
        last_digest := '';
    end if;
    for waits in
        select w.ctid as place, w.batch_id, w.stream_id, w.decision_id
        from lockstep.unsealed w
        left join lockstep.commit c on c.batch_id = w.batch_id and c.stream_id = w.stream_id
        left join lockstep.batch b on b.batch_id = w.batch_id
        left join lockstep.decision d on d.decision_id = w.decision_id
        where w.pipeline = of_pipeline and (w.decision_id is not null or b.state <> 'planned')
        order by coalesce(c.at, d.at), w.batch_id, w.stream_id, w.decision_id limit most
    loop
        if waits.decision_id is null then
            select record into strict of_link from lockstep.committed_record
            where batch_id = waits.batch_id and stream_id = waits.stream_id;
        else
            select record into strict of_link from lockstep.decided_record where decision_id = waits.decision_id;
        end if;
        last_number := last_number + 1;
        last_digest := encode(sha256(convert_to(last_digest || e'\n' || of_link, 'UTF8')), 'hex');
        insert into lockstep.link (pipeline, number, batch_id, stream_id, decision_id, digest)
        values (of_pipeline, last_number, waits.batch_id, waits.stream_id, waits.decision_id, last_digest);
        delete from lockstep.unsealed where ctid = waits.place;
        links := links + 1;
    end loop;
    return links;
end $$;

-- A pipeline and those that have handed a table over to it: their rows are its own now, and so are their erasures.
create function line_of(of_pipeline text) returns text[] language sql stable set search_path = pg_catalog, pg_temp as $$
    with recursive line (name) as (
        select of_pipeline union
        select d.detail ->> 'from' from line l join lockstep.decision d
            on d.pipeline = l.name and d.kind = 'hand-over' and d.detail ->> 'to' = l.name)
    select array_agg(name) from line
$$;

create function key_digest(salt bytea, key bytea) returns text
    language sql immutable
    set search_path = pg_catalog, pg_temp as $$
    select encode(sha256(salt || key), 'hex')
$$;

-- All that an erasure took out, as one number: the decision holds it, and the chain holds the decision.
create function erased_digest(of_erasure bigint) returns text language sql stable set search_path = pg_catalog, pg_temp as $$
    select encode(sha256(convert_to(coalesce(string_agg(concat_ws(' ', x.relation, x.target, x.batch_id, x.stream_id, x."offset",
        x.rows, coalesce(x.digest::text, '-')), e'\n'
        order by x.relation collate "C", x.target collate "C", x.batch_id, x.stream_id, x."offset"), ''), 'UTF8')), 'hex')
    from lockstep.erased x where x.erasure_id = of_erasure
$$;

create function erasure_decision(of_erasure bigint) returns bigint
    language sql stable security definer
    set search_path = pg_catalog, pg_temp as $$
    select min(d.decision_id) from lockstep.decision d join lockstep.erasure e using (pipeline)
    where e.erasure_id = of_erasure and d.kind = 'erase' and d.detail ->> 'erasure' = of_erasure::text
$$;

-- No erasure without the decision that says what it took out, in one transaction.
create function guard_erasure() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select from lockstep.decision d
        where d.decision_id = lockstep.erasure_decision(new.erasure_id)
          and d.detail ->> 'erased' = lockstep.erased_digest(new.erasure_id) and d.detail ->> 'key' = new.digest) then
        raise exception 'erasure_is_decided: no decision says what erasure % took out', new.erasure_id
            using errcode = '23514', constraint = 'erasure_is_decided';
    end if;
    return null;
end $$;
create constraint trigger erasure_is_decided after insert on erasure
    deferrable initially deferred for each row execute function guard_erasure();

-- What was erased is recorded while the decision is still open, and never later.
create function guard_undecided(of_erasure bigint) returns void
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if lockstep.erasure_decision(of_erasure) is not null
            or not exists (select from lockstep.erasure where erasure_id = of_erasure) then
        raise exception 'erased_once: erasure % is decided, or is not there', of_erasure
            using errcode = '23514', constraint = 'erased_once';
    end if;
end $$;

create function guard_erased() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform lockstep.guard_undecided(a.erasure_id) from (select distinct erasure_id from added) a;
    return null;
end $$;
create trigger erased_once after insert on erased referencing new table as added
    for each statement execute function guard_erased();
create trigger erased_once after insert on erasure_bound referencing new table as added
    for each statement execute function guard_erased();

-- An attempt that was opened before an erasure may have staged what was erased.
create function guard_erased_key() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    early record;
begin
    select a.batch_id, a.token into early
    from added a join lockstep.batch b using (batch_id)
    where exists (select from lockstep.erasure e where e.pipeline = b.pipeline and e.token > a.token) limit 1;
    if found then
        raise exception 'erased_stays_out: attempt % of batch % was opened before a key of its pipeline was erased',
            early.token, early.batch_id using errcode = '23514', constraint = 'erased_stays_out';
    end if;
    return null;
end $$;
create trigger erased_stays_out after insert on commit referencing new table as added
    for each statement execute function guard_erased_key();

create function reject_digest(stream integer, at_offset bigint, stamp timestamptz, key bytea, value bytea, headers text, reason text) returns numeric
    language sql immutable
    set search_path = pg_catalog, pg_temp as $$
    select hashint8extended(hash_record_extended(row(stream, at_offset, stamp, key, value,
        headers collate "C", reason collate "C"), 0), -1)::numeric
$$;

-- Rejects older than the newest definition keeps them lose their bytes, at most so many; returns how many.
create function empty_old_rejects(of_pipeline text, most integer) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    days int := (
        select (d.document ->> 'reject_retention')::int from lockstep.batch b
        join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token join lockstep.definition d using (definition_hash)
        where b.batch_id = (
            select batch_id from lockstep.batch where pipeline = of_pipeline and state = 'committed' order by batch_id desc limit 1));
    emptied int;
begin
    if days is null then
        return 0;
    end if;
    update lockstep.reject r set key = null, value = null, headers = null, emptied_at = clock_timestamp(),
        removed_digest =
            lockstep.reject_digest(r.stream_id, r."offset", r.timestamp, r.key, r.value, r.headers::text, r.reason)
            - lockstep.reject_digest(r.stream_id, r."offset", r.timestamp, null, null, null, r.reason)
    from (
        select j.stream_id, j."offset" from lockstep.reject j
        join lockstep.stream s using (stream_id) join lockstep.commit c using (batch_id, stream_id)
        where s.pipeline = of_pipeline and j.emptied_at is null and c.at < clock_timestamp() - make_interval(days => days)
        order by j.stream_id, j."offset" limit most) old
    where r.stream_id = old.stream_id and r."offset" = old."offset" and r.emptied_at is null;
    get diagnostics emptied = row_count;
    return emptied;
end $$;

-- An erasure empties the rejects that hold one of these byte strings; a reason that does is replaced, too.
create function erase_rejects(of_erasure bigint, needles bytea[]) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    emptied int;
begin
    perform lockstep.guard_undecided(of_erasure);
    with held as (
        select j.*, exists (select from unnest(needles) n where position(n in convert_to(j.reason, 'UTF8')) > 0) as told
        from lockstep.erasure e join lockstep.stream s on s.pipeline = any(lockstep.line_of(e.pipeline))
        join lockstep.reject j using (stream_id)
        where e.erasure_id = of_erasure and exists (
            select from unnest(needles) n
            where position(n in j.key) > 0 or position(n in j.value) > 0
               or position(n in convert_to(j.headers::text, 'UTF8')) > 0 or position(n in convert_to(j.reason, 'UTF8')) > 0)),
    made as (
        select h.*, case when h.told then 'erased' else h.reason end as kept from held h),
    gone as (
        update lockstep.reject r set key = null, value = null, headers = null, reason = m.kept,
            emptied_at = coalesce(r.emptied_at, clock_timestamp()),
            removed_digest = coalesce(r.removed_digest, 0)
                + lockstep.reject_digest(m.stream_id, m."offset", m.timestamp, m.key, m.value, m.headers::text, m.reason)
                - lockstep.reject_digest(m.stream_id, m."offset", m.timestamp, null, null, null, m.kept)
        from made m where r.stream_id = m.stream_id and r."offset" = m."offset"
        returning r.batch_id, r.stream_id, r."offset")
    insert into lockstep.erased (erasure_id, relation, target, batch_id, stream_id, "offset", rows)
    select of_erasure, 'lockstep.reject', 'lockstep.reject', g.batch_id, g.stream_id, g."offset", 1 from gone g;
    get diagnostics emptied = row_count;
    return emptied;
end $$;

-- Errors and verdicts of the pipeline that match the pattern lose what they say; returns how many.
create function erase_said(of_erasure bigint, pattern text) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    errors int;
    verdicts int;
    line text[] := (select lockstep.line_of(pipeline) from lockstep.erasure where erasure_id = of_erasure);
begin
    perform lockstep.guard_undecided(of_erasure);
    update lockstep.attempt a set error = 'erased' from lockstep.batch b
    where b.batch_id = a.batch_id and b.pipeline = any(line) and a.error ~ pattern;
    get diagnostics errors = row_count;
    update lockstep.verdict v
    set erased_digest = coalesce(v.erased_digest, encode(sha256(convert_to(v.result::text, 'UTF8')), 'hex')),
        result = jsonb_build_object('success', v.success, 'refusals', '[]'::jsonb, 'erased', true,
            'quarantined', coalesce(v.result -> 'quarantined', '0'))
    from lockstep.batch b where b.batch_id = v.batch_id and b.pipeline = any(line) and v.result::text ~ pattern;
    get diagnostics verdicts = row_count;
    return errors + verdicts;
end $$;
